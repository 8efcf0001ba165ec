package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// maxSubresourceBytes limits the size of a JSON document that is read from a subresource.
const maxSubresourceBytes = 4 << 20

// subresource is a subresource of a workspace or a template: a log, or a list of related
// items.
type subresource struct {
	plural, namespace, object, name string
}

// open requests the subresource with the caller's permissions. The caller must close the
// reader.
func (s subresource) open(ctx context.Context, call *toolset.Call, query url.Values) (io.ReadCloser, error) {
	if err := toolset.RequireObject(s.namespace, s.object); err != nil {
		return nil, err
	}
	path := callers.SubresourcePath(aggregationv1alpha1.GroupVersion, s.namespace, s.plural, s.object, s.name)
	body, err := call.Kube.Raw.Get(ctx, path, query)
	if err != nil {
		return nil, s.failed(err)
	}
	return body, nil
}

// decode decodes the subresource's JSON document into a value.
func (s subresource) decode(ctx context.Context, call *toolset.Call, query url.Values, into any) error {
	body, err := s.open(ctx, call, query)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxSubresourceBytes)).Decode(into); err != nil {
		return s.failed(fmt.Errorf("reading the answer: %w", err))
	}
	return nil
}

func (s subresource) failed(err error) error {
	return &toolset.CallError{
		Verb: "get", Resource: s.plural + "/" + s.name + "." + aggregationGroup, Namespace: s.namespace, Name: s.object, Err: err,
	}
}
