package workload

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
)

const (
	// actionReconcile is what the operator was doing when something was worth an
	// Event.
	actionReconcile = "Reconcile"
	// longestNote is what the API server takes.
	longestNote = 1024
)

// quiet says of the reasons of states that pass by themselves.
func quiet(reason string) bool {
	return slices.Contains([]string{
		coderv1alpha1.ReasonWaiting, coderv1alpha1.ReasonProgressing, coderv1alpha1.ReasonReconciling,
		coderv1alpha1.ReasonNotChecked, coderv1alpha1.ReasonDisabled, coderv1alpha1.ReasonAdminJobRunning,
		coderv1alpha1.ReasonDeleting, coderv1alpha1.ReasonPending,
	}, reason)
}

// warns says of the reasons of conditions that hold, but not for long.
func warns(reason string) bool {
	return reason == coderv1alpha1.ReasonLicenseExpiring || reason == coderv1alpha1.ReasonLicenseInGracePeriod ||
		reason == coderv1alpha1.ReasonTokenExpiring
}

// tellChanges makes an Event of each condition that fails for another reason than
// before, and of each that holds again after that. Ready has the reason of a part,
// and only tells when everything works. That a part works from the beginning is no
// news: the conditions say it, and an Event for each part of each new object is the
// larger half of what it costs.
func (t *Toolkit) tellChanges(p *Pass, before, after []metav1.Condition) {
	for _, c := range conditions.Changed(before, after) {
		switch {
		case c.Type == coderv1alpha1.ConditionReconciling, c.Type == coderv1alpha1.ConditionStalled:
		case c.Status == metav1.ConditionTrue && warns(c.Reason):
			t.Tell(p, corev1.EventTypeWarning, c.Reason, c.Message)
		case c.Status == metav1.ConditionTrue && (works(c) || told(before, c.Type)):
			t.Tell(p, corev1.EventTypeNormal, c.Reason, c.Message)
		case c.Status == metav1.ConditionFalse && c.Type != coderv1alpha1.ConditionReady && !quiet(c.Reason):
			t.Tell(p, corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
}

// works says of Ready that there is something that works now.
func works(c metav1.Condition) bool {
	return c.Type == coderv1alpha1.ConditionReady && c.Reason != coderv1alpha1.ReasonScaledToZero
}

// told says whether the last Event about a condition told of a failure.
func told(before []metav1.Condition, conditionType string) bool {
	old := conditions.Find(before, conditionType)
	return old != nil && (old.Status == metav1.ConditionFalse && !quiet(old.Reason) || old.Status == metav1.ConditionTrue)
}

// Tell makes an Event.
func (t *Toolkit) Tell(p *Pass, eventType, reason, note string) {
	if len(note) > longestNote {
		note = strings.ToValidUTF8(note[:longestNote], "")
	}
	t.Recorder.Eventf(p.Object, nil, eventType, reason, actionReconcile, "%s", note)
}
