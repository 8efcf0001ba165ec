package controlplane

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
)

// TestALifeAsKstatusSeesIt takes a control plane through its lifecycle. At each step it checks the
// kstatus of its conditions, on which tools wait.
func TestALifeAsKstatusSeesIt(t *testing.T) {
	f := newFixture(t, newControlPlane(), databaseSecret())
	f.Settle()
	f.MustBe("while the pods start", controllertest.KstatusInProgress)
	f.PodsReady(1)
	f.live()
	f.MustBe("when Coder works", controllertest.KstatusCurrent)

	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Image = "ghcr.io/coder/coder:v2.30.1" })
	f.MustBe("before anybody saw the new image", controllertest.KstatusInProgress)
	f.Settle()
	f.rollout(false)
	f.Settle()
	f.MustBe("during the rollout", controllertest.KstatusInProgress)
	f.rollout(true)
	f.Settle()
	f.MustBe("when the rollout was given up", controllertest.KstatusFailed)
	f.live()
	f.MustBe("when the rollout came to its end after all", controllertest.KstatusCurrent)

	remove := f.coder.Fail(coderdtest.Fault{DropConnection: true})
	token := &corev1.Secret{}
	f.Get("coder-operator-token", token)
	f.Remove(token)
	f.Settle()
	f.MustBe("while Coder does not answer", controllertest.KstatusInProgress)
	remove()
	f.live()
	f.MustBe("when Coder answers again", controllertest.KstatusCurrent)

	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.ExtraEnv = nil })
	f.Settle()
	f.rollout(false)
	f.Settle()
	f.MustBe("without a database", controllertest.KstatusFailed)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.ExtraEnv = newControlPlane().Spec.ExtraEnv })
	f.live()
	f.MustBe("with a database again", controllertest.KstatusCurrent)

	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](0) })
	f.live()
	f.MustBe("scaled to zero", controllertest.KstatusCurrent)
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.Replicas = ptr.To[int32](1) })
	f.live()
	f.MustBe("scaled up", controllertest.KstatusCurrent)

	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Delete()
	f.MustBe("when it is deleted", controllertest.KstatusTerminating)
	f.Reconcile()
	f.MustBe("while the token is not revoked", controllertest.KstatusTerminating)
}

// rollout sets the status of a Deployment whose new pods do not become ready, before or after the
// progress deadline of ten minutes.
func (f *fixture) rollout(expired bool) {
	f.T.Helper()
	d := &appsv1.Deployment{}
	f.Get("coder", d)
	d.Status.ObservedGeneration, d.Status.UpdatedReplicas = d.Generation, 0
	if expired {
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
		}}
	}
	f.UpdateStatus(d)
}
