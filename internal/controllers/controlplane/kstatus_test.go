package controlplane

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/test/kstatus"
)

// TestALifeAsKstatusSeesIt takes a control plane through its lifecycle. At each step it checks the
// kstatus of its conditions, on which tools wait.
func TestALifeAsKstatusSeesIt(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	judged := func(when, want string) {
		t.Helper()
		got, err := kstatus.Of(f.controlPlane())
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s it is %s, want %s; conditions %+v", when, got, want, f.controlPlane().Status.Conditions)
		}
	}
	f.settle()
	judged("while the pods start", kstatus.InProgress)
	f.podsReady(1)
	f.live()
	judged("when Coder works", kstatus.Current)

	f.change(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = "ghcr.io/coder/coder:v2.30.1" })
	judged("before anybody saw the new image", kstatus.InProgress)
	f.settle()
	f.rollout(false)
	f.settle()
	judged("during the rollout", kstatus.InProgress)
	f.rollout(true)
	f.settle()
	judged("when the rollout was given up", kstatus.Failed)
	f.live()
	judged("when the rollout came to its end after all", kstatus.Current)

	remove := f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.change(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.OperatorAccess.GeneratedTokenSecretName = "renamed" })
	f.settle()
	judged("while Coder does not answer", kstatus.InProgress)
	remove()
	f.live()
	judged("when Coder answers again", kstatus.Current)

	f.change(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.ExtraEnv = nil })
	f.settle()
	f.rollout(false)
	f.settle()
	judged("without a database", kstatus.Failed)
	f.change(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.ExtraEnv = newControlPlane().Spec.ExtraEnv })
	f.live()
	judged("with a database again", kstatus.Current)

	f.change(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](0) })
	f.live()
	judged("scaled to zero", kstatus.Current)
	f.change(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](1) })
	f.live()
	judged("scaled up", kstatus.Current)

	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.delete()
	judged("when it is deleted", kstatus.Terminating)
	f.reconcile()
	judged("while the token is not revoked", kstatus.Terminating)
}

// rollout sets the status of a Deployment whose new pods do not become ready, before or after the
// progress deadline of ten minutes.
func (f *fixture) rollout(expired bool) {
	f.t.Helper()
	d := &appsv1.Deployment{}
	f.get("coder", "coder", d)
	d.Status.ObservedGeneration, d.Status.UpdatedReplicas = d.Generation, 0
	if expired {
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
		}}
	}
	if err := f.cluster.SubResource("status").Update(f.t.Context(), d); err != nil {
		f.t.Fatal(err)
	}
}
