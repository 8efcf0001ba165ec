package workspace

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// scaleREST presents a workspace as a scalable object with one replica or none, so that kubectl
// scale and autoscalers can start and stop it.
type scaleREST struct {
	registry.Body
	*subresource
}

var (
	_ rest.Patcher                  = (*scaleREST)(nil)
	_ rest.GroupVersionKindProvider = (*scaleREST)(nil)
)

// GroupVersionKind implements rest.GroupVersionKindProvider.
func (*scaleREST) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

func newScale() runtime.Object { return &autoscalingv1.Scale{} }

// Get implements rest.Getter.
func (r *scaleREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	obj, err := r.store.Get(ctx, name, options)
	if err != nil {
		return nil, err
	}
	return scaleOf(obj)
}

// ConvertToTable implements rest.TableConvertor.
func (r *scaleREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return rest.NewDefaultTableConvertor(autoscalingv1.Resource("scales")).ConvertToTable(ctx, object, options)
}

// Update implements rest.Updater.
func (r *scaleREST) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	change := changeOf{preconditions: info.Preconditions, change: func(ctx context.Context, ws object) error {
		return scaled(ctx, ws, info, updateValidation)
	}}
	// Only the Scale is validated, by scaled.
	out, _, err := r.store.Update(ctx, name, change, nil, nil, false, options)
	if err != nil {
		return nil, false, err
	}
	scale, err := scaleOf(out)
	return scale, false, err
}

// scaled applies the updated Scale to a workspace.
func scaled(
	ctx context.Context, ws object, info rest.UpdatedObjectInfo, validate rest.ValidateObjectUpdateFunc,
) error {
	fields := managedfields.NewScaleHandler(ws.ManagedFields, aggregationv1alpha1.GroupVersion, replicasPaths())
	old, err := scaleOf(ws)
	if err != nil {
		return err
	}
	if old.ManagedFields, err = fields.ToSubresource(); err != nil {
		return apierrors.NewInternalError(err)
	}
	updated, err := info.UpdatedObject(ctx, old.DeepCopy())
	if err != nil {
		return err
	}
	scale, ok := updated.(*autoscalingv1.Scale)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a Scale of autoscaling/v1", updated))
	}
	if replicas := scale.Spec.Replicas; replicas != 0 && replicas != 1 {
		return apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), ws.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), replicas, "must be 0 (stopped) or 1 (running): a workspace runs once"),
		})
	}
	if validate != nil {
		if err := validate(ctx, scale, old); err != nil {
			return err
		}
	}
	if scale.ResourceVersion != "" {
		ws.ResourceVersion = scale.ResourceVersion
	}
	setRunning(ws, scale.Spec.Replicas == 1)
	if ws.ManagedFields, err = fields.ToParent(scale.ManagedFields); err != nil {
		return apierrors.NewInternalError(err)
	}
	return nil
}

// replicasPaths maps the replicas of a Scale to a field of a workspace.
func replicasPaths() managedfields.ResourcePathMappings {
	return managedfields.ResourcePathMappings{
		aggregationv1alpha1.GroupVersion.String(): fieldpath.MakePathOrDie("spec", "running"),
	}
}

func scaleOf(obj runtime.Object) (*autoscalingv1.Scale, error) {
	ws, err := info.Cast(obj)
	if err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Name: ws.Name, Namespace: ws.Namespace, UID: ws.UID,
		ResourceVersion: ws.ResourceVersion, CreationTimestamp: ws.CreationTimestamp,
	}}
	if ptr.Deref(ws.Spec.Running, false) {
		scale.Spec.Replicas = 1
	}
	if ws.Status.LatestBuildStatus == statusRunning {
		scale.Status.Replicas = 1
	}
	return scale, nil
}

// changeOf is an update that changes the existing workspace.
type changeOf struct {
	preconditions func() *metav1.Preconditions
	change        func(ctx context.Context, ws object) error
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
	ws, err := info.Cast(old.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	return ws, c.change(ctx, ws)
}
