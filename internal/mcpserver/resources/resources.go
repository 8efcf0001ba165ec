package resources

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// Media types of resources.
const (
	jsonType = "application/json"
	textType = "text/plain"
)

// Resources reads, completes and watches resources. It is safe for concurrent use.
type Resources struct {
	kube  *callers.Kube
	clock clock.Clock
	// jitter returns a random duration between 0 and d. It spreads the retries of many
	// watches that failed at the same time.
	jitter func(d time.Duration) time.Duration
}

// New creates Resources that read through kube, which impersonates the caller.
func New(kube *callers.Kube, c clock.Clock) *Resources {
	return &Resources{kube: kube, clock: c, jitter: func(d time.Duration) time.Duration { return rand.N(d) }}
}

// Register registers the resources with an MCP server.
func (r *Resources) Register(server *mcp.Server) {
	for _, fixed := range fixedResources() {
		server.AddResource(&fixed, r.read)
	}
	for _, template := range resourceTemplates() {
		server.AddResourceTemplate(&template, r.read)
	}
}

// read handles resources/read.
func (r *Resources) read(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	a, ok := parseAddress(uri)
	if !ok {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	contents, err := r.contents(ctx, a)
	if err != nil {
		return nil, told(ctx, uri, err)
	}
	contents.URI = uri
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

func (r *Resources) contents(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	switch a.part {
	case partEvents:
		return r.events(ctx, a)
	case partPods:
		return r.pods(ctx, a)
	case partLog:
		return r.log(ctx, a)
	case partFiles:
		return r.file(ctx, a)
	}
	if a.name == "" {
		return r.controlPlanes(ctx, a)
	}
	return r.object(ctx, a)
}

// errMissing means that a part of an existing object does not exist.
var errMissing = errors.New("missing")

// told converts an error for the client.
func told(ctx context.Context, uri string, err error) error {
	var call *toolset.CallError
	if errors.Is(err, errMissing) || errors.As(err, &call) && call.Name != "" && apierrors.IsNotFound(call.Err) {
		return mcp.ResourceNotFoundError(uri)
	}
	outcome, sentence := toolset.Sentence(ctx, err)
	code := int64(jsonrpc.CodeInternalError)
	if outcome == toolset.OutcomeDenied || outcome == toolset.OutcomeInvalid || outcome == toolset.OutcomeNotFound {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: sentence}
}
