package resources

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// Media types of resources.
const (
	jsonType = "application/json"
	textType = "text/plain"
)

// Resources reads and completes resources. It is safe for concurrent use.
type Resources struct{ kube *callers.Kube }

// New creates Resources that read through kube, which impersonates the caller.
func New(kube *callers.Kube) *Resources { return &Resources{kube: kube} }

// Register registers the resources with an MCP server.
func (r *Resources) Register(server *mcp.Server) {
	server.AddResource(&mcp.Resource{
		URI: "coder://controlplanes", Name: "controlplanes", Title: "Control planes", MIMEType: jsonType,
		Description: "All control planes that the caller may list: names, readiness, and the URI of each.",
	}, r.read)
	for _, template := range resourceTemplates() {
		server.AddResourceTemplate(&template, r.read)
	}
}

func (r *Resources) read(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	a, ok := parseAddress(uri)
	if !ok {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	contents, err := r.contents(ctx, a)
	if err != nil {
		return nil, clientError(ctx, uri, err)
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

// clientError converts an error for the client.
func clientError(ctx context.Context, uri string, err error) error {
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

func resourceTemplates() []mcp.ResourceTemplate {
	return []mcp.ResourceTemplate{
		{
			URITemplate: "coder://controlplanes/{namespace}", Name: "controlplanes-of-namespace", Title: "Control planes of a namespace", MIMEType: jsonType,
			Description: "For callers who may not list those of all namespaces.",
		},
		{
			URITemplate: "coder://controlplanes/{namespace}/{name}", Name: "controlplane", Title: "Control plane", MIMEType: jsonType,
			Description: "A CoderControlPlane with spec and status; secret values are left out.",
		},
		{
			URITemplate: "coder://controlplanes/{namespace}/{name}/events", Name: "controlplane-events", Title: "Events of a control plane", MIMEType: jsonType,
			Description: "The newest Events about it, its Deployment and its pods.",
		},
		{
			URITemplate: "coder://controlplanes/{namespace}/{name}/pods", Name: "controlplane-pods", Title: "Pods of a control plane", MIMEType: jsonType,
			Description: "Its pods: phase, readiness, restarts, and why containers wait.",
		},
		{
			URITemplate: "coder://workspaces/{namespace}/{name}", Name: "workspace", Title: "Workspace", MIMEType: jsonType,
			Description: "A CoderWorkspace with spec and status.",
		},
		{
			URITemplate: "coder://workspaces/{namespace}/{name}/log", Name: "workspace-log", Title: "Build log of a workspace", MIMEType: textType,
			Description: "The end of the log of its newest build.",
		},
		{
			URITemplate: "coder://templates/{namespace}/{name}", Name: "template", Title: "Template", MIMEType: jsonType,
			Description: "A CoderTemplate; spec.files has the size of each file instead of its text.",
		},
		{
			URITemplate: "coder://templates/{namespace}/{name}/files/{+path}", Name: "template-file", Title: "File of a template", MIMEType: textType,
			Description: "One file of the template's source. Literal secrets are replaced by [redacted].",
		},
	}
}

// Rights returns all permissions that resources and completion use.
func Rights() []callers.Right {
	rights := []callers.Right{
		{Verb: "list", Resource: "events"},
		{Verb: "list", Resource: "pods"},
		callers.AggregatedRight("get", "coderworkspaces/log"),
		callers.AggregatedRight("get", "codertemplates/files"),
	}
	for _, verb := range []string{"get", "list"} {
		rights = append(rights,
			callers.CoderRight(verb, "codercontrolplanes"), callers.AggregatedRight(verb, "coderworkspaces"), callers.AggregatedRight(verb, "codertemplates"))
	}
	return rights
}

// mostControlPlanes is the maximum number of control planes in a list.
const mostControlPlanes = 500

type controlPlane struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// URI is the URI of the control plane's resource.
	URI     string `json:"uri"`
	Ready   bool   `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Version string `json:"version,omitempty"`
}

func (r *Resources) controlPlanes(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	list := &coderv1alpha1.CoderControlPlaneList{}
	if err := r.kube.List(ctx, list, client.InNamespace(a.namespace), client.Limit(mostControlPlanes)); err != nil {
		return nil, a.failed("list", err)
	}
	items := make([]controlPlane, 0, len(list.Items))
	for _, cp := range list.Items {
		items = append(items, describeControlPlane(a.collection, cp))
	}
	return fitting("controlPlanes", items, func(shown int) string {
		return noticeIf(shown < len(items) || list.Continue != "",
			"there are more; read coder://controlplanes/{namespace} for those of one namespace, or call list_control_planes")
	})
}

func describeControlPlane(c collection, cp coderv1alpha1.CoderControlPlane) controlPlane {
	out := controlPlane{
		Namespace: cp.Namespace, Name: cp.Name, Version: cp.Status.Version,
		URI: address{collection: c, namespace: cp.Namespace, name: cp.Name}.String(),
	}
	if ready := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionReady); ready != nil {
		out.Ready, out.Reason, out.Message = ready.Status == "True", ready.Reason, toolset.CleanText(ready.Message)
	}
	return out
}
