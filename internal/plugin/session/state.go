package session

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/meta"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// WorkspaceState returns the state of a workspace as kubectl get shows it: STATUS, or HEALTH if the
// workspace runs but cannot be used.
func WorkspaceState(w *aggregationv1alpha1.CoderWorkspace) string {
	healthy := w.Status.Healthy
	switch {
	case w.Status.Phase != "Running" || healthy != nil && *healthy:
		return cmp.Or(w.Status.Phase, "Unknown")
	case healthy == nil:
		return "Connecting"
	default:
		return "Unhealthy"
	}
}

// TemplateState returns the state of a template as kubectl get shows it in STATUS.
func TemplateState(t *aggregationv1alpha1.CoderTemplate) string {
	if t.DeletionTimestamp != nil {
		return aggregationv1alpha1.ReasonDeleting
	}
	if ready := meta.FindStatusCondition(t.Status.Conditions, aggregationv1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return "Unknown"
}
