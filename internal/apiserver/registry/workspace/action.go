package workspace

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

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

func requestedAction(ctx context.Context) action {
	a, _ := ctx.Value(actionKey{}).(action)
	return a
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

// actionREST implements the subresource of an action.
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
	if err := invalid(name, validateEphemeral(r.action, asked.EphemeralParameters)...); err != nil {
		return nil, err
	}
	change := changeOf{change: func(_ context.Context, ws object) error { return r.change(ws, asked.EphemeralParameters) }}
	if asked.UID != "" {
		change.preconditions = func() *metav1.Preconditions { return &metav1.Preconditions{UID: &asked.UID} }
	}
	out, _, err := r.store.Update(withAction(ctx, r.action), name, change, nil, nil, false,
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
