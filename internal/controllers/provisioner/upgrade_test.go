package provisioner

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/upgrade"
)

// upgrades sets the phase of the upgrade of the control plane.
func (f *fixture) upgrades(phase coderv1alpha1.UpgradePhase) {
	f.T.Helper()
	f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) {
		now := metav1.NewTime(f.Clock.Now())
		cp.Status.Upgrade = &coderv1alpha1.UpgradeStatus{
			Phase: phase, FromImage: cp.Status.Image, ToImage: "registry.example.com/coder:v2.36.0", StartedAt: now, PhaseStartedAt: now,
		}
		if phase == coderv1alpha1.UpgradeCompleted {
			cp.Status.Image = cp.Status.Upgrade.ToImage
		}
	})
}

// mustWant checks the number of pods and their image.
func (f *fixture) mustWant(when string, replicas int32, image string) {
	f.T.Helper()
	d := f.Deployment()
	if got := d.Spec.Template.Spec.Containers[0].Image; *d.Spec.Replicas != replicas || got != image {
		f.T.Errorf("%s: %d pods of %s, want %d of %s", when, *d.Spec.Replicas, got, replicas, image)
	}
}

const imageBefore, imageAfter = "registry.example.com/coder:v2.30.0", "registry.example.com/coder:v2.36.0"

func TestProvisionersAreHeldDuringAnUpgrade(t *testing.T) {
	f := readyFixture(t)
	for _, step := range []struct {
		phase    coderv1alpha1.UpgradePhase
		replicas int32
		image    string
	}{
		{coderv1alpha1.UpgradeChecking, 2, imageBefore},
		{coderv1alpha1.UpgradeWaitingForBackup, 2, imageBefore},
		{coderv1alpha1.UpgradeStoppingProvisioners, 0, imageBefore},
		{coderv1alpha1.UpgradeStopping, 0, imageBefore},
		{coderv1alpha1.UpgradeBackingUp, 0, imageBefore},
		{coderv1alpha1.UpgradeMigrating, 0, imageBefore},
		{coderv1alpha1.UpgradeVerifying, 0, imageBefore},
		{coderv1alpha1.UpgradeReverting, 2, imageBefore},
		{coderv1alpha1.UpgradeReverted, 2, imageBefore},
		{coderv1alpha1.UpgradeStopping, 0, imageBefore},
		{coderv1alpha1.UpgradeFailed, 2, imageBefore},
		{coderv1alpha1.UpgradeMigrating, 0, imageBefore},
		{coderv1alpha1.UpgradeCompleted, 2, imageAfter},
	} {
		f.upgrades(step.phase)
		f.restart()
		f.Settle()
		f.mustWant(string(step.phase), step.replicas, step.image)
		reason := coderv1alpha1.ReasonReady
		if step.replicas == 0 {
			reason = coderv1alpha1.ReasonScaledToZero
		}
		f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionTrue, reason)
		if pods := len(f.pods()); pods != int(step.replicas) {
			t.Errorf("%s: %d pods", step.phase, pods)
		}
	}
}

// Whatever happens to the control plane, its provisioners come back.
func TestProvisionersDoNotStayHeld(t *testing.T) {
	held := func(t *testing.T) *fixture {
		f := readyFixture(t)
		f.Forward(30 * time.Minute) // Coder is asked for the key once an hour, and not when the hold ends.
		f.upgrades(coderv1alpha1.UpgradeStopping)
		f.Settle()
		f.mustWant("held", 0, imageBefore)
		f.Forward(upgrade.LongestHold - time.Minute)
		if after := f.Settle().RequeueAfter; after <= 0 || after > time.Minute {
			t.Errorf("the next pass is after %s", after)
		}
		return f
	}
	for what, end := range map[string]func(f *fixture){
		"the phase does not end": func(f *fixture) { f.Forward(upgrade.LongestHold) },
		"the image is set back": func(f *fixture) {
			f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Status.Upgrade = nil })
		},
		"the control plane is being deleted": func(f *fixture) {
			cp := &coderv1alpha1.CoderControlPlane{}
			f.Get("coder", cp)
			cp.Finalizers = []string{metav1.FinalizerOrphanDependents}
			f.Update(cp)
			f.Remove(cp)
		},
		"the control plane is gone": func(f *fixture) { f.loseControlPlane() },
	} {
		t.Run(what, func(t *testing.T) {
			f := held(t)
			end(f)
			f.restart()
			f.Settle()
			f.mustWant(what, 2, imageBefore)
		})
	}
}

// loseControlPlane deletes the control plane between two passes.
func (f *fixture) loseControlPlane() {
	f.T.Helper()
	cp := &coderv1alpha1.CoderControlPlane{}
	f.Get("coder", cp)
	f.Remove(cp)
}

// Without a control plane the pods are started once, and only those that the operator has stopped.
func TestPodsOfALostUpgradeAreTheUsersAfterwards(t *testing.T) {
	f := readyFixture(t)
	f.upgrades(coderv1alpha1.UpgradeStopping)
	f.Settle()
	f.loseControlPlane()
	f.Settle()
	f.mustWant("lost", 2, imageBefore)
	d := f.Deployment()
	d.Spec.Replicas = new(int32)
	f.Update(d)
	f.restart()
	f.Settle()
	f.mustWant("lost and scaled", 0, imageBefore)

	f = readyFixture(t)
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Replicas = new(int32) })
	f.upgrades(coderv1alpha1.UpgradeStopping)
	f.Settle()
	f.loseControlPlane()
	f.Settle()
	f.mustWant("without pods in the spec", 0, imageBefore)
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Replicas = new(int32(3)) })
	f.Settle()
	f.mustWant("with pods in the spec since", 0, imageBefore) // No upgrade has stopped them.

	// The spec changes together with the loss.
	f = readyFixture(t)
	f.upgrades(coderv1alpha1.UpgradeStopping)
	f.Settle()
	f.loseControlPlane()
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.Replicas = new(int32(3)) })
	f.Settle()
	f.mustWant("with more pods in the spec", 3, imageBefore)
}

func TestDeletionThatOrphansResumesThePods(t *testing.T) {
	f := readyFixture(t)
	f.upgrades(coderv1alpha1.UpgradeStopping)
	f.Settle()
	cr := f.Object()
	cr.Finalizers = append(cr.Finalizers, metav1.FinalizerOrphanDependents)
	f.Update(cr)
	f.Delete()
	f.Reconcile()
	f.mustWant("orphaned", 2, imageBefore)
	// The number of pods is then that of a user.
	d := f.Deployment()
	d.Spec.Replicas = new(int32)
	f.Update(d)
	f.restart()
	f.Reconcile()
	f.mustWant("orphaned and scaled", 0, imageBefore)
}
