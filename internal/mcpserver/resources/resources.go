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

// Media types of what is read.
const (
	jsonType = "application/json"
	textType = "text/plain"
)

// Resources reads, completes and watches. It is safe for concurrent use.
type Resources struct {
	kube  *callers.Kube
	clock clock.Clock
	// jitter spreads the attempts of many watches that broke together: it gives a
	// time from zero to d.
	jitter func(d time.Duration) time.Duration
}

// New makes the resources. They read through kube, as the caller.
func New(kube *callers.Kube, c clock.Clock) *Resources {
	return &Resources{kube: kube, clock: c, jitter: func(d time.Duration) time.Duration { return rand.N(d) }}
}

// Register offers the resources on a server.
func (r *Resources) Register(server *mcp.Server) {
	for _, fixed := range fixedResources() {
		server.AddResource(&fixed, r.read)
	}
	for _, template := range resourceTemplates() {
		server.AddResourceTemplate(&template, r.read)
	}
}

// read answers resources/read.
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

// errMissing is that a part of an object is not there although the object is.
var errMissing = errors.New("missing")

// told is the form in which a client gets an error.
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
