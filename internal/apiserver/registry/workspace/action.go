package workspace

import (
	"context"

	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// actionAnnotation carries an action from the replica that was asked to the one
// that writes. Only a subresource may set it, and it is never kept.
const actionAnnotation = "aggregation.coder.com/action"

// action is something to be done at once with a workspace.
type action string

const (
	actionStart   action = "start"
	actionStop    action = "stop"
	actionRestart action = "restart"
)

type actionKey struct{}

// withAction lets an update that this context belongs to carry an action.
func withAction(ctx context.Context, a action) context.Context {
	return context.WithValue(ctx, actionKey{}, a)
}

func requestedAction(ctx context.Context) action {
	a, _ := ctx.Value(actionKey{}).(action)
	return a
}

// takeAction takes the action off what is wanted.
func takeAction(wanted *aggregationv1alpha1.CoderWorkspace) (action, *aggregationv1alpha1.CoderWorkspace) {
	a := action(wanted.Annotations[actionAnnotation])
	if a == "" {
		return "", wanted
	}
	out := wanted.DeepCopy()
	delete(out.Annotations, actionAnnotation)
	return a, out
}

// running is what the workspace shall do after the action.
func (a action) running() bool { return a != actionStop }

// into adds an action to what is different. It builds again also what failed.
func (a action) into(d *difference) {
	if a == actionStart || a == actionStop {
		d.change.Running, d.change.Force = ptr.To(a.running()), true
	}
}
