package workspace

import (
	"errors"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// subresource is the common part of the subresources of workspaces.
type subresource struct {
	kind       *Kind
	store      registry.Store
	authorizer authorizer.UnconditionalAuthorizer
}

// Subresources returns the storages of the subresources of coderworkspaces by name.
func (k *Kind) Subresources(store registry.Store, authorizer authorizer.UnconditionalAuthorizer) map[string]rest.Storage {
	r := &subresource{kind: k, store: store, authorizer: authorizer}
	return map[string]rest.Storage{
		"exec":        newAccess(k.New, r.exec),
		"portforward": newAccess(k.New, r.portForward),
		"scale":       &scaleREST{newScale, r},
		"start":       &actionREST{newAction, r, actionStart},
		"stop":        &actionREST{newAction, r, actionStop},
		"restart":     &actionREST{newAction, r, actionRestart},
		"log":         registry.NewLogGetter(k.New, r.openLog),

		TokenSubresource: &tokenREST{newToken, r},
	}
}

// AddToScheme registers what requests for workspaces use besides the types: field labels of
// selectors, the queries of the subresources, and the Scale.
func AddToScheme(s *runtime.Scheme) error {
	if err := info.AddToScheme(s); err != nil {
		return err
	}
	scale := autoscalingv1.SchemeGroupVersion
	s.AddKnownTypes(scale, &autoscalingv1.Scale{})
	s.AddKnownTypes(schema.GroupVersion{Group: scale.Group, Version: runtime.APIVersionInternal}, &autoscalingv1.Scale{})
	metav1.AddToGroupVersion(s, scale)
	return errors.Join(
		registry.AddOptions[aggregationv1alpha1.CoderWorkspaceExecOptions](s),
		registry.AddOptions[aggregationv1alpha1.CoderWorkspacePortForwardOptions](s),
		registry.AddOptions[aggregationv1alpha1.CoderWorkspaceLogOptions](s),
	)
}
