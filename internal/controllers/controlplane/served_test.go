package controlplane

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

// TestServedWaitsForTheFirstRead checks that Served and Ready wait until the aggregated API has read the
// objects, and that a control plane that was served stays Ready if the mirror starts again.
func TestServedWaitsForTheFirstRead(t *testing.T) {
	state := &recordsv1alpha1.CoderMirrorState{
		ObjectMeta: metav1.ObjectMeta{Namespace: coderKey().Namespace, Name: coderKey().Name},
		Spec:       recordsv1alpha1.MirrorStateSpec{State: "Syncing", Message: "Coder has 60000 workspaces"},
	}
	f := newFixture(t, newControlPlane(), databaseSecret(), state)
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionTrue, coderv1alpha1.ReasonTokenAccepted)
	f.MustHave(coderv1alpha1.ConditionServed, metav1.ConditionFalse, coderv1alpha1.ReasonWaiting)
	f.MustHave(coderv1alpha1.ConditionReconciling, metav1.ConditionTrue, coderv1alpha1.ReasonWaiting)
	ready := f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonWaiting)
	if !strings.HasSuffix(ready.Message, "for the first time: Coder has 60000 workspaces") {
		t.Errorf("Ready says %q", ready.Message)
	}

	state.Spec.ControlPlaneUID, state.Spec.Seen = "earlier-uid", true
	f.Update(state)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionServed, metav1.ConditionFalse, coderv1alpha1.ReasonWaiting)
	state.Spec.ControlPlaneUID = "cp-uid"

	seen := func(seen bool) {
		t.Helper()
		state.Spec.Seen = seen
		f.Update(state)
		f.Settle()
		f.MustHave(coderv1alpha1.ConditionServed, metav1.ConditionTrue, coderv1alpha1.ReasonServed)
		f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	}
	seen(true)
	for _, n := range []int32{3, 0} {
		state.Spec.Incomplete = n
		seen(true)
		if got := f.Object().Status.IncompleteObjects; got != n {
			t.Errorf("status.incompleteObjects is %d, want %d", got, n)
		}
	}
	seen(false)
	f.Forward(framework.RestInterval)
	seen(false)
}

// TestAQuarantineVerifiesTheTokenAgain checks that the control plane reports within one pass that the operator's account
// has lost the role owner, if the aggregated API notices that objects are missing, and that it recovers.
func TestAQuarantineVerifiesTheTokenAgain(t *testing.T) {
	state := &recordsv1alpha1.CoderMirrorState{
		ObjectMeta: metav1.ObjectMeta{Namespace: coderKey().Namespace, Name: coderKey().Name},
		Spec:       recordsv1alpha1.MirrorStateSpec{State: "Ready", Seen: true, ControlPlaneUID: "cp-uid"},
	}
	f := newFixture(t, newControlPlane(), databaseSecret(), state)
	f.Settle()
	f.PodsReady(1)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
	operator := f.coder.Usernames()[0]
	f.coder.SetMember(operator, "coder", "organization-admin")
	f.coder.EditUser(operator, "", false)
	state.Spec.State = "Quarantined"
	f.Update(state)
	f.Settle()
	access := f.MustHave(coderv1alpha1.ConditionOperatorAccess, metav1.ConditionFalse, coderv1alpha1.ReasonTokenRefused)
	if !strings.Contains(access.Message, "does not have the role owner") {
		t.Errorf("OperatorAccess says %q", access.Message)
	}
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonTokenRefused)

	f.coder.EditUser(operator, "", false, "owner")
	f.Forward(framework.RestInterval)
	f.Settle()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, coderv1alpha1.ReasonReady)
}
