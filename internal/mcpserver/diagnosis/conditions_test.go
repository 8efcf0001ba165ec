package diagnosis

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUnhealthyConditions(t *testing.T) {
	for _, c := range []struct {
		kind, reason string
		status       metav1.ConditionStatus
		unhealthy    bool
	}{
		{"CoderReachable", "Disabled", metav1.ConditionUnknown, false},
		{"ProvisionerKeyReady", "NotChecked", metav1.ConditionUnknown, false},
		{"Ready", "NotChecked", metav1.ConditionUnknown, true},
		{"CoderReachable", "Waiting", metav1.ConditionUnknown, true},
		{"OperatorAccess", "Disabled", metav1.ConditionFalse, true},
		{"Stalled", "BuildFailed", metav1.ConditionTrue, true},
		{"Stalled", "Running", metav1.ConditionFalse, false},
		{"DeletionFailed", "DeletionFailed", metav1.ConditionTrue, true},
		{"Truncated", "TooLarge", metav1.ConditionTrue, false},
		{"Synced", "ChangeWaits", metav1.ConditionFalse, true},
		{"AgentsConnected", "Stopped", metav1.ConditionUnknown, false},
	} {
		if got := isUnhealthy(metav1.Condition{Type: c.kind, Status: c.status, Reason: c.reason}); got != c.unhealthy {
			t.Errorf("%s=%s, %s: unhealthy is %v, want %v", c.kind, c.status, c.reason, got, c.unhealthy)
		}
	}
}

func TestTheVersionIsTheLastProblem(t *testing.T) {
	conditions := append([]metav1.Condition{no("VersionSupported", "NewerVersion", "it was not tested")}, brokenPart("Served", "Waiting", "a part")...)
	conditions = append(conditions, no("Exposed", "Waiting", "another part"))
	found := Unhealthy("CoderControlPlane", aControlPlane(), 1, conditions)
	if len(found) != 3 || found[2].Condition != "VersionSupported" {
		t.Errorf("problems: %+v", found)
	}
}
