package tools

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// coderGroup is the API group of the operator's custom resources.
const coderGroup = "coder.com"

const controlPlanePlural = "codercontrolplanes"

func addControlPlanes(s *toolset.Set) {
	addListControlPlanes(s)
	addGetControlPlaneStatus(s)
	addListControlPlanePods(s)
	addGetDeploymentStatus(s)
	addGetServiceStatus(s)
	addChangeControlPlane(s)
}

func coderError(verb, plural, namespace, name string, err error) error {
	return &toolset.CallError{Verb: verb, Resource: plural + "." + coderGroup, Namespace: namespace, Name: name, Err: err}
}

// readControlPlane reads a control plane with the caller's permissions. Its errors can be
// returned by tools as they are.
func readControlPlane(ctx context.Context, kube *callers.Kube, namespace, name string) (*coderv1alpha1.CoderControlPlane, error) {
	if err := toolset.RequireObject(namespace, name); err != nil {
		return nil, err
	}
	cp := &coderv1alpha1.CoderControlPlane{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cp); err != nil {
		return nil, coderError("get", controlPlanePlural, namespace, name, err)
	}
	return cp, nil
}
