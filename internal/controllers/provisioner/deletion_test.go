package provisioner

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// delete deletes the provisioner. The time of the request is the fixture's clock.
func (f *fixture) delete() {
	f.t.Helper()
	f.must(f.cluster.Delete(f.t.Context(), f.provisioner()))
	f.clock.SetTime(f.provisioner().DeletionTimestamp.Time)
}

func (f *fixture) gone() bool { return !f.find(name, &coderv1alpha1.CoderProvisioner{}) }

func TestK18DeletionLetsJobsFinishAndDeletesTheKey(t *testing.T) {
	f := readyFixture(t, func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.RBAC.WorkspaceNamespaces = []string{"work"} })
	f.slow = true
	f.delete()
	result := f.reconcile()
	if f.find("provisioner-gpu", &appsv1.Deployment{}) {
		t.Error("the Deployment is still there")
	}
	if f.keyNames() != "gpu" || result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second {
		t.Fatalf("keys while jobs run: %q; again after %v", f.keyNames(), result.RequeueAfter)
	}
	roles := &rbacv1.RoleList{}
	f.must(f.cluster.List(t.Context(), roles))
	if len(roles.Items) != 2 {
		t.Errorf("%d roles while jobs run, want 2", len(roles.Items))
	}
	ready := f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonDeleting)
	if !strings.Contains(ready.Message, "until the pods have finished their jobs") {
		t.Errorf("message %q", ready.Message)
	}
	f.slow = false
	f.roll()
	f.reconcile()
	if !f.gone() || f.keyNames() != "" {
		t.Errorf("gone: %v, keys: %q", f.gone(), f.keyNames())
	}
	f.must(f.cluster.List(t.Context(), roles))
	if len(roles.Items) != 0 {
		t.Errorf("%d roles are left", len(roles.Items))
	}
	f.reconcile()
}

// With --cascade=orphan the Deployment is kept, whether the operator or the garbage collector acts
// first.
func TestDeletionThatOrphansLeavesTheDeployment(t *testing.T) {
	f := readyFixture(t)
	before := f.deployment()
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Finalizers = append(cr.Finalizers, metav1.FinalizerOrphanDependents)
	})
	f.delete()
	f.reconcile()
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Finalizers = slices.DeleteFunc(cr.Finalizers, func(name string) bool { return name == metav1.FinalizerOrphanDependents })
	})
	if !f.gone() {
		t.Error("the provisioner is still there")
	}
	if after := f.deployment(); after.UID != before.UID || len(after.OwnerReferences) > 0 {
		t.Errorf("the Deployment was %s and is %s with the owners %v", before.UID, after.UID, after.OwnerReferences)
	}
}

// An annotation with an invalid name for a Deployment does not block the deletion.
func TestDeletionWithANameThatIsNone(t *testing.T) {
	f := readyFixture(t)
	f.edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Annotations = map[string]string{coderv1alpha1.AnnotationWorkloadName: "../coder"}
	})
	f.reconcile()
	f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonInvalidName)
	f.delete()
	f.must(f.cluster.Delete(t.Context(), f.deployment()))
	f.roll()
	f.reconcile()
	if !f.gone() || f.keyNames() != "" {
		t.Errorf("gone: %v, keys: %q", f.gone(), f.keyNames())
	}
}

func TestDeletionWaitsForJobsNoLongerThanTheGracePeriod(t *testing.T) {
	f := readyFixture(t)
	f.slow = true
	f.delete()
	f.forward(629 * time.Second)
	f.reconcile()
	if f.gone() {
		t.Fatal("gone before the grace period is over")
	}
	f.forward(time.Second)
	f.reconcile()
	if !f.gone() || f.keyNames() != "" {
		t.Errorf("gone: %v, keys: %q", f.gone(), f.keyNames())
	}
}

func TestK18AnUnreachableCoderDelaysDeletionForAMinute(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		f := readyFixture(t)
		f.coder.Fail(coderdtest.Fault{DropConnection: true})
		f.delete()
		f.reconcile()
		f.roll()
		for _, passed := range []time.Duration{0, 30 * time.Second, 59 * time.Second} {
			f.clock.SetTime(f.provisioner().DeletionTimestamp.Add(10*time.Second + passed))
			if result := f.reconcile(); result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second {
				t.Errorf("after %v it looks again after %v", passed, result.RequeueAfter)
			}
			ready := f.mustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonDeleting)
			if !strings.Contains(ready.Message, "key is deleted in Coder") {
				t.Errorf("message %q does not say what the deletion waits for", ready.Message)
			}
		}
		end := 70 * time.Second
		if restarts {
			// A new process does not know when the pods ended, but it knows when they must have
			// ended.
			f.restart()
			end = 690 * time.Second
		}
		f.clock.SetTime(f.provisioner().DeletionTimestamp.Add(end))
		f.reconcile()
		if !f.gone() {
			t.Error("a Coder that does not answer blocks the deletion for good")
		}
		if f.events.count(`Warning ProvisionerKeyLeftBehind: left behind: provisioner key "gpu" in organization "coder"`) != 1 {
			t.Errorf("Events: %q", f.events.all())
		}
	}
}

func TestAControlPlaneThatGoesHoldsNoProvisioner(t *testing.T) {
	t.Run("gone", func(t *testing.T) {
		f := readyFixture(t)
		f.slow = true
		f.must(f.cluster.Delete(t.Context(), newControlPlane()))
		f.delete()
		f.reconcile()
		if !f.gone() || f.events.count("Warning ProvisionerKeyLeftBehind") != 1 {
			t.Errorf("gone: %v, Events: %q", f.gone(), f.events.all())
		}
	})
	for what, fails := range map[string]bool{"being deleted": false, "being deleted, and silent": true} {
		t.Run(what, func(t *testing.T) {
			f := readyFixture(t)
			f.slow = true
			f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Finalizers = []string{"test/hold"} })
			f.must(f.cluster.Delete(t.Context(), newControlPlane()))
			if fails {
				f.coder.Fail(coderdtest.Fault{DropConnection: true})
			}
			f.delete()
			f.reconcile()
			left := f.events.count("Warning ProvisionerKeyLeftBehind")
			if !f.gone() || (left == 1) != fails || (f.keyNames() == "gpu") != fails {
				t.Errorf("gone: %v, keys %q, Events: %q", f.gone(), f.keyNames(), f.events.all())
			}
		})
	}
}

func TestDeletionOfWhatNeverHadAKeyIsImmediate(t *testing.T) {
	f := newFixture(t, newProvisioner(), newControlPlane())
	f.coder.SetFeature(feature, "not_entitled")
	f.settle()
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.delete()
	f.reconcile()
	if !f.gone() || f.events.count("Warning ProvisionerKeyLeftBehind") > 0 {
		t.Errorf("gone: %v, Events: %q", f.gone(), f.events.all())
	}
}

// The Secret was deleted earlier. The key is found through the status.
func TestDeletionFindsTheKeyWithoutItsSecret(t *testing.T) {
	f := readyFixture(t)
	f.must(f.cluster.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gpu-provisioner-key"}}))
	f.delete()
	f.reconcile()
	f.roll()
	f.reconcile()
	if !f.gone() || f.keyNames() != "" {
		t.Errorf("gone: %v, keys: %q", f.gone(), f.keyNames())
	}
}
