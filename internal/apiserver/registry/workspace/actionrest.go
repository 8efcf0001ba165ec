package workspace

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// actionREST implements the subresource of an action.
type actionREST struct {
	store  Store
	action action
}

var (
	_ rest.NamedCreater    = (*actionREST)(nil)
	_ rest.StorageMetadata = (*actionREST)(nil)
)

// New implements rest.Storage. It returns the body of the request.
func (*actionREST) New() runtime.Object { return &aggregationv1alpha1.CoderWorkspaceAction{} }

// Destroy implements rest.Storage.
func (*actionREST) Destroy() {}

// ProducesMIMETypes implements rest.StorageMetadata.
func (*actionREST) ProducesMIMETypes(string) []string { return nil }

// ProducesObject implements rest.StorageMetadata. The response is the workspace.
func (*actionREST) ProducesObject(string) any { return aggregationv1alpha1.CoderWorkspace{} }

// Create implements rest.NamedCreater.
func (r *actionREST) Create(
	ctx context.Context, name string, body runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	asked, ok := body.(*aggregationv1alpha1.CoderWorkspaceAction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a CoderWorkspaceAction", body))
	}
	if asked.Name != "" && asked.Name != name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("metadata.name is %q in the body, and %q in the address", asked.Name, name))
	}
	if validate != nil {
		if err := validate(ctx, body.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	out, _, err := r.store.Update(withAction(ctx, r.action), name, changeOf{change: r.change}, nil, nil, false,
		&metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
	if err != nil {
		return nil, err
	}
	ws, ok := out.(*aggregationv1alpha1.CoderWorkspace)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("%T is no CoderWorkspace", out))
	}
	// In a dry run, the annotation is still there.
	_, ws = takeAction(ws)
	return ws, nil
}

// change adds the action to the workspace, and sets spec.running accordingly.
func (r *actionREST) change(_ context.Context, ws *aggregationv1alpha1.CoderWorkspace) error {
	if ws.Annotations == nil {
		ws.Annotations = map[string]string{}
	}
	ws.Annotations[actionAnnotation] = string(r.action)
	ws.Spec.Running = ptr.To(r.action.running())
	return nil
}
