package workspace

import (
	"context"

	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// actionAnnotation transports an action from the replica that received the request to the replica
// that writes. Only a subresource may set it, and it is never stored.
const actionAnnotation = "aggregation.coder.com/action"

// action is an operation on a workspace that is executed at once.
type action string

const (
	actionStart   action = "start"
	actionStop    action = "stop"
	actionRestart action = "restart"
)

type actionKey struct{}

// withAction returns a context that allows an update to contain an action.
func withAction(ctx context.Context, a action) context.Context {
	return context.WithValue(ctx, actionKey{}, a)
}

func requestedAction(ctx context.Context) action {
	a, _ := ctx.Value(actionKey{}).(action)
	return a
}

// takeAction returns the action of an object, and the object without it.
func takeAction(wanted *aggregationv1alpha1.CoderWorkspace) (action, *aggregationv1alpha1.CoderWorkspace) {
	a := action(wanted.Annotations[actionAnnotation])
	if a == "" {
		return "", wanted
	}
	out := wanted.DeepCopy()
	delete(out.Annotations, actionAnnotation)
	return a, out
}

// running returns the value of spec.running after the action.
func (a action) running() bool { return a != actionStop }

// into adds an action to a difference. It also repeats a build that failed.
func (a action) into(d *difference) {
	if a == actionStart || a == actionStop {
		d.change.Running, d.change.Force = ptr.To(a.running()), true
	}
}
