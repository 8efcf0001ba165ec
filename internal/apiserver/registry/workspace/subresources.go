package workspace

import (
	"context"
	"fmt"
	"net/url"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// Store is the storage that the subresources use.
type Store interface {
	rest.Getter
	Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
		updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error)
}

// Subresources returns the storages of the subresources of coderworkspaces by name.
func (k *Kind) Subresources(store Store, authorizer authorizer.UnconditionalAuthorizer) map[string]rest.Storage {
	access := accessREST{store: store, kind: k, authorizer: authorizer}
	return map[string]rest.Storage{
		"exec":        &execREST{access},
		"portforward": &portForwardREST{access},
		"scale":       &scaleREST{store: store},
		"start":       &actionREST{store: store, action: actionStart},
		"stop":        &actionREST{store: store, action: actionStop},
		"restart":     &actionREST{store: store, action: actionRestart},
		"log":         &logREST{store: store, kind: k},

		TokenSubresource: &tokenREST{store: store, kind: k},
	}
}

// AddToScheme registers what requests for workspaces use besides the types: field labels of
// selectors, the query of the log, and the Scale.
func AddToScheme(s *runtime.Scheme) error {
	gvk := aggregationv1alpha1.GroupVersion.WithKind(kindName)
	if err := s.AddFieldLabelConversionFunc(gvk, FieldLabel); err != nil {
		return err
	}
	scale := autoscalingv1.SchemeGroupVersion
	s.AddKnownTypes(scale, &autoscalingv1.Scale{})
	s.AddKnownTypes(schema.GroupVersion{Group: scale.Group, Version: runtime.APIVersionInternal}, &autoscalingv1.Scale{})
	metav1.AddToGroupVersion(s, scale)
	if err := s.AddConversionFunc((*url.Values)(nil), (*aggregationv1alpha1.CoderWorkspaceExecOptions)(nil),
		func(query, options any, _ conversion.Scope) error {
			return readExecOptions(*query.(*url.Values), options.(*aggregationv1alpha1.CoderWorkspaceExecOptions))
		}); err != nil {
		return err
	}
	if err := s.AddConversionFunc((*url.Values)(nil), (*aggregationv1alpha1.CoderWorkspacePortForwardOptions)(nil),
		func(query, options any, _ conversion.Scope) error {
			return registry.ReadQuery(*query.(*url.Values),
				registry.TextParameter("agent", &options.(*aggregationv1alpha1.CoderWorkspacePortForwardOptions).Agent))
		}); err != nil {
		return err
	}
	return s.AddConversionFunc((*url.Values)(nil), (*aggregationv1alpha1.CoderWorkspaceLogOptions)(nil),
		func(query, options any, _ conversion.Scope) error {
			return readLogOptions(*query.(*url.Values), options.(*aggregationv1alpha1.CoderWorkspaceLogOptions))
		})
}

// readLogOptions decodes the query of the subresource log.
func readLogOptions(query url.Values, options *aggregationv1alpha1.CoderWorkspaceLogOptions) error {
	return registry.ReadQuery(query,
		registry.TextParameter("source", &options.Source),
		registry.TextParameter("agent", &options.Agent),
		registry.TextParameter("script", &options.Script),
		registry.NumberParameter("tailLines", &options.TailLines),
		registry.BoolParameter("follow", &options.Follow),
		registry.NumberParameter("build", &options.Build),
		registry.NumberParameter("after", &options.After))
}

// readExecOptions decodes the query of the subresource exec.
func readExecOptions(query url.Values, options *aggregationv1alpha1.CoderWorkspaceExecOptions) error {
	options.Command = query["command"]
	return registry.ReadQuery(query,
		registry.TextParameter("agent", &options.Agent),
		registry.BoolParameter("stdin", &options.Stdin),
		registry.BoolParameter("stdout", &options.Stdout),
		registry.BoolParameter("stderr", &options.Stderr),
		registry.BoolParameter("tty", &options.TTY),
		registry.BoolParameter("ssh", &options.SSH))
}

// changeOf is an update that changes the existing workspace.
type changeOf struct {
	preconditions func() *metav1.Preconditions
	change        func(ctx context.Context, ws *aggregationv1alpha1.CoderWorkspace) error
}

var _ rest.UpdatedObjectInfo = changeOf{}

// Preconditions implements rest.UpdatedObjectInfo.
func (c changeOf) Preconditions() *metav1.Preconditions {
	if c.preconditions == nil {
		return nil
	}
	return c.preconditions()
}

// UpdatedObject implements rest.UpdatedObjectInfo.
func (c changeOf) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	ws, ok := old.DeepCopyObject().(*aggregationv1alpha1.CoderWorkspace)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T is no CoderWorkspace", old))
	}
	return ws, c.change(ctx, ws)
}
