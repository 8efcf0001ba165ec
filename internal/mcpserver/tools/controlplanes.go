package tools

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

var listControlPlanesTool = definition{
	name:  "list_control_planes",
	title: "List Coder control planes",
	description: "Lists the Coder deployments that run on this cluster, with their address, version and state. " +
		"Where one is not ready, reason and message say why.",
	readOnly:   true,
	idempotent: true,
}

type listControlPlanesInput struct {
	Namespace string `json:"namespace,omitempty" jsonschema:"namespace to look in; leave it out for all namespaces, which needs the right to list cluster-wide"`
	Limit     int    `json:"limit,omitempty" jsonschema:"how many to return at most"`
	Cursor    string `json:"cursor,omitempty" jsonschema:"nextCursor of the answer before, to go on from there"`
}

type controlPlane struct {
	Name          string `json:"name" jsonschema:"name of the CoderControlPlane"`
	Namespace     string `json:"namespace" jsonschema:"its namespace"`
	Phase         string `json:"phase" jsonschema:"Ready or Pending; empty before it was first looked at"`
	Replicas      int32  `json:"replicas" jsonschema:"number of coderd pods that are there"`
	ReadyReplicas int32  `json:"readyReplicas" jsonschema:"number of coderd pods that are ready"`
	URL           string `json:"url" jsonschema:"address inside the cluster; empty until known"`
	Version       string `json:"version,omitempty" jsonschema:"version of Coder that answered last"`
	Reason        string `json:"reason,omitempty" jsonschema:"one word on the condition Ready"`
	Message       string `json:"message,omitempty" jsonschema:"why it is not ready and what to do"`
}

type listControlPlanesOutput struct {
	Items      []controlPlane `json:"items" jsonschema:"the control planes of this page"`
	Truncated  bool           `json:"truncated" jsonschema:"whether there are more; get them with nextCursor"`
	NextCursor string         `json:"nextCursor,omitempty" jsonschema:"cursor for the next call"`
}

type controlPlanes struct{ client client.Client }

func (c controlPlanes) list(ctx context.Context, in listControlPlanesInput) (listControlPlanesOutput, error) {
	p, err := newPage(in.Limit, in.Cursor)
	if err != nil {
		return listControlPlanesOutput{}, err
	}
	var list coderv1alpha1.CoderControlPlaneList
	if err := c.client.List(ctx, &list, p.options(in.Namespace)); err != nil {
		return listControlPlanesOutput{}, &callError{verb: "list", resource: controlPlaneResource, namespace: in.Namespace, err: err}
	}
	shown, cursor := cut(p, list.Items, list.Continue)
	out := listControlPlanesOutput{Items: make([]controlPlane, 0, len(shown)), NextCursor: cursor, Truncated: cursor != ""}
	for i := range shown {
		out.Items = append(out.Items, describeControlPlane(&shown[i]))
	}
	return out, nil
}

func describeControlPlane(cp *coderv1alpha1.CoderControlPlane) controlPlane {
	d := controlPlane{
		Name:          cp.Name,
		Namespace:     cp.Namespace,
		Phase:         string(cp.Status.Phase),
		Replicas:      cp.Status.Replicas,
		ReadyReplicas: cp.Status.ReadyReplicas,
		URL:           cp.Status.URL,
		Version:       cp.Status.Version,
	}
	if ready := meta.FindStatusCondition(cp.Status.Conditions, coderv1alpha1.ConditionReady); ready != nil {
		d.Reason, d.Message = ready.Reason, ready.Message
	}
	return d
}
