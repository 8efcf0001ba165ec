package controlplane

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metadatav1alpha1 "github.com/coder-k8s/coder-k8s/api/metadata/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
)

// TestServedWaitsForTheFirstRead checks that Served and Ready wait until the aggregated API has read the
// objects, and that a control plane that was served stays Ready if the mirror starts again.
func TestServedWaitsForTheFirstRead(t *testing.T) {
	state := &metadatav1alpha1.CoderMirrorState{
		ObjectMeta: metav1.ObjectMeta{Namespace: coderKey().Namespace, Name: coderKey().Name},
		Spec:       metadatav1alpha1.MirrorStateSpec{State: "Syncing", Message: "Coder has 60000 workspaces"},
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
	f.Forward(workload.RestInterval)
	seen(false)
}
