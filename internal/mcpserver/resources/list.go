package resources

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

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

type controlPlaneList struct {
	ControlPlanes []controlPlane `json:"controlPlanes"`
	Truncated     bool           `json:"truncated,omitempty"`
	Notice        string         `json:"notice,omitempty"`
}

// controlPlanes lists the control planes of a namespace, or of all namespaces.
func (r *Resources) controlPlanes(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	list := &coderv1alpha1.CoderControlPlaneList{}
	if err := r.kube.List(ctx, list, client.InNamespace(a.namespace), client.Limit(mostControlPlanes)); err != nil {
		return nil, a.failed("list", err)
	}
	items := make([]controlPlane, 0, len(list.Items))
	for _, cp := range list.Items {
		items = append(items, describeControlPlane(a.collection, cp))
	}
	return fitting(items, func(shown []controlPlane) any {
		answer := controlPlaneList{ControlPlanes: shown}
		if len(shown) < len(items) || list.Continue != "" {
			answer.Truncated = true
			answer.Notice = "there are more; read coder://controlplanes/{namespace} for those of one namespace, or call list_control_planes"
		}
		return answer
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
