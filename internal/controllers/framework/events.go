package framework

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// longestNote is the maximum length of an Event's note that the API server accepts, in bytes.
const longestNote = 1024

// quiet reports whether a reason belongs to a transient state, for which no Event is recorded.
func quiet(reason string) bool {
	return slices.Contains([]string{
		coderv1alpha1.ReasonWaiting, coderv1alpha1.ReasonProgressing, coderv1alpha1.ReasonReconciling,
		coderv1alpha1.ReasonNotChecked, coderv1alpha1.ReasonDisabled, coderv1alpha1.ReasonAdminJobRunning,
		coderv1alpha1.ReasonDeleting, coderv1alpha1.ReasonPending, coderv1alpha1.ReasonBackupRunning, coderv1alpha1.ReasonRestoreRunning,
	}, reason)
}

// warns reports whether a reason belongs to a condition that is a problem also while it is true.
func warns(reason string) bool {
	return slices.Contains([]string{
		coderv1alpha1.ReasonLicenseExpiring, coderv1alpha1.ReasonLicenseInGracePeriod, coderv1alpha1.ReasonTokenExpiring,
		coderv1alpha1.ReasonSecretMissing, coderv1alpha1.ReasonConfigMapMissing,
		coderv1alpha1.ReasonDatabaseSecretMissing, coderv1alpha1.ReasonTokenSecretMissing,
	}, reason)
}

// progresses reports whether a reason belongs to a phase that takes long and is no problem.
func progresses(reason string) bool {
	return slices.Contains([]string{
		coderv1alpha1.ReasonUpgradeChecking, coderv1alpha1.ReasonUpgradeStoppingProvisioners, coderv1alpha1.ReasonUpgradeStopping, coderv1alpha1.ReasonUpgradeBackingUp, coderv1alpha1.ReasonUpgradeMigrating,
	}, reason)
}

// tellChanges records an Event for each condition that fails for a new reason, and for each
// condition that becomes true after such a failure. Ready copies its reason from another condition,
// so it gets an Event only when it becomes true. A condition that is true from the beginning gets
// no Event: the status already reports it, and one Event for each condition of each new object
// would be the larger part of the cost of creating an object.
func (t *Toolkit) tellChanges(p *Pass, before, after []metav1.Condition) {
	for _, c := range changedConditions(before, after) {
		switch {
		case c.Type == coderv1alpha1.ConditionReconciling, c.Type == coderv1alpha1.ConditionStalled:
		case c.Status == metav1.ConditionTrue && warns(c.Reason):
			t.Tell(p, corev1.EventTypeWarning, c.Reason, c.Message)
		case c.Type == coderv1alpha1.ConditionReady && c.Status == metav1.ConditionTrue && c.Reason != coderv1alpha1.ReasonScaledToZero,
			c.Status == metav1.ConditionTrue && reported(before, c.Type):
			t.Tell(p, corev1.EventTypeNormal, c.Reason, c.Message)
		case c.Type != coderv1alpha1.ConditionReady && progresses(c.Reason):
			t.Tell(p, corev1.EventTypeNormal, c.Reason, c.Message)
		case c.Status == metav1.ConditionFalse && c.Type != coderv1alpha1.ConditionReady && !quiet(c.Reason):
			t.Tell(p, corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
}

func reported(before []metav1.Condition, conditionType string) bool {
	// The condition was true before, or it failed and got an Event.
	old := meta.FindStatusCondition(before, conditionType)
	return old != nil && (old.Status == metav1.ConditionFalse && !quiet(old.Reason) || old.Status == metav1.ConditionTrue)
}

// TellAll records Events for the object of the pass. Their messages may contain texts of Coder.
func (t *Toolkit) TellAll(p *Pass, all ensure.Events) {
	for _, event := range all {
		t.Tell(p, event.Type, event.Reason, Redact(event.Message))
	}
}

// Tell records an Event for the object of the pass.
func (t *Toolkit) Tell(p *Pass, eventType, reason, note string) {
	if len(note) > longestNote {
		note = strings.ToValidUTF8(note[:longestNote], "")
	}
	t.Recorder.Eventf(p.Object, nil, eventType, reason, "Reconcile", "%s", note)
}
