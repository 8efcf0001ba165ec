package resources

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// Limits of a log excerpt.
const (
	logLines = 200
	logBytes = 64 << 10
)

// log reads the end of the log of a workspace's newest build.
func (r *Resources) log(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	stream, err := r.kube.Raw.Get(ctx, a.partPath("log"), nil)
	if err != nil {
		return nil, a.partFailed("log", err)
	}
	defer func() { _ = stream.Close() }()
	lines, cut, err := toolset.ReadTail(stream, logLines, logBytes)
	if err != nil {
		return nil, a.partFailed("log", err)
	}
	lines = toolset.CleanText(lines)
	if cut {
		lines = "(older lines are left out; get_build_logs tells more)\n" + lines
	}
	return &mcp.ResourceContents{MIMEType: textType, Text: lines}, nil
}

// partPath returns the API path of a subresource of the object.
func (a address) partPath(subresource string) string {
	return callers.SubresourcePath(a.collection.kind.GroupVersion(), a.namespace, a.collection.resource, a.name, subresource)
}

// partFailed returns the error of a failed request for a subresource.
func (a address) partFailed(subresource string, err error) error {
	return &toolset.CallError{
		Verb: "get", Resource: a.collection.resource + "/" + subresource, Namespace: a.namespace, Name: a.name, Err: err,
	}
}
