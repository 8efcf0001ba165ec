package workspace

import (
	"context"
	"encoding/json"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// actionAnnotation contains the order of a subresource, as JSON, on its way to the update. Only a
// subresource may set it, and it is never stored.
const actionAnnotation = "aggregation.coder.com/action"

// action is an operation on a workspace that is executed at once.
type action string

const (
	actionStart   action = "start"
	actionStop    action = "stop"
	actionRestart action = "restart"
	// actionOrphan deletes the workspace without a build.
	actionOrphan action = "orphan"
)

// order is what a request to a subresource asks for.
type order struct {
	Action action `json:"action"`
	// Ephemeral are values for the build that starts the workspace.
	Ephemeral []value `json:"ephemeral,omitempty"`
}

type actionKey struct{}

// withAction returns a context that allows an update to contain an action.
func withAction(ctx context.Context, a action) context.Context {
	return context.WithValue(ctx, actionKey{}, a)
}

// takeOrder returns the order of an object, and the object without it.
func takeOrder(wanted object) (o order, without object, err error) {
	text, ok := wanted.Annotations[actionAnnotation]
	if !ok {
		return o, wanted, nil
	}
	without = wanted.DeepCopy()
	delete(without.Annotations, actionAnnotation)
	return o, without, json.Unmarshal([]byte(text), &o)
}

// running returns the value of spec.running after the action.
func (a action) running() bool { return a != actionStop }

// setRunning starts or stops a workspace. A workspace that starts is not dormant any more.
func setRunning(ws object, running bool) {
	ws.Spec.Running = &running
	if running {
		ws.Spec.Dormant = ptr.To(false)
	}
}

// into adds an order to a difference. It also repeats a build that failed.
func (o order) into(d *difference) {
	d.restart, d.orphan = o.Action == actionRestart, o.Action == actionOrphan
	if o.Action == actionStart || o.Action == actionStop {
		d.change.Running, d.change.Force = ptr.To(o.Action.running()), true
	}
	if len(o.Ephemeral) > 0 {
		// Also after a restart whose stop another user made: the values are for a start.
		d.change.Running, d.change.Ephemeral = ptr.To(true), o.Ephemeral
	}
}

type actionREST struct {
	registry.Body
	*subresource
	action action
}

var (
	_ rest.NamedCreater    = (*actionREST)(nil)
	_ rest.StorageMetadata = (*actionREST)(nil)
)

func newAction() runtime.Object { return &aggregationv1alpha1.CoderWorkspaceAction{} }

// ProducesMIMETypes implements rest.StorageMetadata.
func (*actionREST) ProducesMIMETypes(string) []string { return nil }

// ProducesObject implements rest.StorageMetadata. The response is the workspace.
func (*actionREST) ProducesObject(string) any { return aggregationv1alpha1.CoderWorkspace{} }

// Create implements rest.NamedCreater.
func (r *actionREST) Create(
	ctx context.Context, name string, body runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	asked, err := registry.BodyOf[*aggregationv1alpha1.CoderWorkspaceAction](ctx, name, body, validate)
	if err != nil {
		return nil, err
	}
	if len(asked.EphemeralParameters) > 0 && r.action != actionStart && r.action != actionRestart {
		return nil, invalid(name, field.Forbidden(ephemeralPath, "only start and restart take values for one build"))
	}
	if err := invalid(name, validateParameterNames(ephemeralPath, asked.EphemeralParameters)...); err != nil {
		return nil, err
	}
	update := rest.DefaultUpdatedObjectInfo(&aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{UID: asked.UID}},
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			ws, err := info.Cast(old.DeepCopyObject())
			if err != nil {
				return nil, err
			}
			return ws, r.change(ws, asked.EphemeralParameters)
		})
	out, _, err := r.store.Update(withAction(ctx, r.action), name, update, nil, nil, false,
		&metav1.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager})
	if err != nil {
		return nil, err
	}
	ws, err := info.Cast(out)
	if err != nil {
		return nil, err
	}
	// In a dry run, the annotation is still there.
	if _, ws, err = takeOrder(ws); err != nil {
		return nil, err
	}
	if r.action == actionOrphan {
		warning.AddWarning(ctx, "", "the workspace is deleted in Coder only. What its template created stays; kubectl get pods,persistentvolumeclaims -A -l "+
			aggregationv1alpha1.LabelWorkspaceID+"="+ws.Status.ID+" lists what has Coder's label in this cluster")
	}
	return ws, nil
}

// change adds the order to the workspace, and sets its spec accordingly.
func (r *actionREST) change(ws object, ephemeral []aggregationv1alpha1.WorkspaceParameter) error {
	o := order{Action: r.action}
	for _, p := range ephemeral {
		o.Ephemeral = append(o.Ephemeral, value{p.Name, p.Value})
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&ws.ObjectMeta, actionAnnotation, string(text))
	if r.action != actionOrphan {
		setRunning(ws, r.action.running())
	}
	return nil
}

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
	// Only the Scale is validated.
	out, _, err := r.store.Update(ctx, name, scaleUpdate{info, updateValidation}, nil, nil, false, options)
	if err != nil {
		return nil, false, err
	}
	scale, err := scaleOf(out)
	return scale, false, err
}

// scaleUpdate is the update of a workspace by an update of its Scale.
type scaleUpdate struct {
	rest.UpdatedObjectInfo
	validate rest.ValidateObjectUpdateFunc
}

// UpdatedObject implements rest.UpdatedObjectInfo.
func (u scaleUpdate) UpdatedObject(ctx context.Context, obj runtime.Object) (runtime.Object, error) {
	ws, err := info.Cast(obj.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	fields := managedfields.NewScaleHandler(ws.ManagedFields, aggregationv1alpha1.GroupVersion, managedfields.ResourcePathMappings{
		aggregationv1alpha1.GroupVersion.String(): fieldpath.MakePathOrDie("spec", "running"),
	})
	old, err := scaleOf(ws)
	if err != nil {
		return nil, err
	}
	if old.ManagedFields, err = fields.ToSubresource(); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	updated, err := u.UpdatedObjectInfo.UpdatedObject(ctx, old.DeepCopy())
	if err != nil {
		return nil, err
	}
	scale, ok := updated.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is a %T, want a Scale of autoscaling/v1", updated))
	}
	if replicas := scale.Spec.Replicas; replicas != 0 && replicas != 1 {
		return nil, apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), ws.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), replicas, "must be 0 (stopped) or 1 (running): a workspace runs once"),
		})
	}
	if u.validate != nil {
		if err := u.validate(ctx, scale, old); err != nil {
			return nil, err
		}
	}
	if scale.ResourceVersion != "" {
		ws.ResourceVersion = scale.ResourceVersion
	}
	setRunning(ws, scale.Spec.Replicas == 1)
	if ws.ManagedFields, err = fields.ToParent(scale.ManagedFields); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return ws, nil
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
