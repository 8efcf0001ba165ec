package provisioner

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

func TestK18DeletionLetsJobsFinishAndDeletesTheKey(t *testing.T) {
	f := readyFixture(t, func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.RBAC.WorkspaceNamespaces = []string{"work"} })
	f.slow = true
	f.Delete()
	result := f.Reconcile()
	if f.Has("provisioner-gpu", &appsv1.Deployment{}) {
		t.Error("the Deployment is still there")
	}
	if f.keyNames() != "gpu" || result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second {
		t.Fatalf("keys while jobs run: %q; again after %v", f.keyNames(), result.RequeueAfter)
	}
	roles := &rbacv1.RoleList{}
	f.List(roles)
	if len(roles.Items) != 2 {
		t.Errorf("%d roles while jobs run, want 2", len(roles.Items))
	}
	ready := f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonDeleting)
	if !strings.Contains(ready.Message, "until the pods have finished their jobs") {
		t.Errorf("message %q", ready.Message)
	}
	f.slow = false
	f.roll()
	f.Reconcile()
	if !f.Gone() || f.keyNames() != "" {
		t.Errorf("gone: %v, keys: %q", f.Gone(), f.keyNames())
	}
	f.List(roles)
	if len(roles.Items) != 0 {
		t.Errorf("%d roles are left", len(roles.Items))
	}
	f.Reconcile()
}

// The pods of a Deployment that was taken over have other labels than the operator's, also after it is
// gone.
func TestDeletionWaitsForThePodsOfAnAdoptedDeployment(t *testing.T) {
	chart := map[string]string{"app.kubernetes.io/instance": "release"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "provisioner-gpu", UID: "of-the-chart",
		Annotations: map[string]string{coderv1alpha1.AnnotationAdopt: "CoderProvisioner/" + name},
	}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: chart}
	d.Spec.Template.Labels = chart
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "coder", Image: "coder:1"}}
	f := newFixture(t, newProvisioner(), newControlPlane(), d)
	f.Settle()
	f.slow = true
	f.Delete()
	f.Reconcile()
	f.roll()
	f.Forward(framework.DeletionRetry)
	f.Reconcile()
	if f.Gone() || f.keyNames() != "gpu" {
		t.Fatalf("gone: %v; keys while jobs run: %q", f.Gone(), f.keyNames())
	}
	if got := f.Object().Status.Selector; got != "app.kubernetes.io/instance=release" {
		t.Errorf("the selector in the status is %q", got)
	}
	f.slow = false
	f.roll()
	f.Reconcile()
	if !f.Gone() || f.keyNames() != "" {
		t.Errorf("gone: %v, keys: %q", f.Gone(), f.keyNames())
	}
}

// With --cascade=orphan the Deployment is kept, whether the operator or the garbage collector acts
// first, and so is everything that its pods need.
func TestDeletionThatOrphansLeavesTheDeployment(t *testing.T) {
	f := readyFixture(t, func(cr *coderv1alpha1.CoderProvisioner) { cr.Spec.RBAC.WorkspaceNamespaces = []string{"work"} })
	before := f.Deployment()
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Finalizers = append(cr.Finalizers, metav1.FinalizerOrphanDependents)
	})
	f.Delete()
	f.Reconcile()
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Finalizers = slices.DeleteFunc(cr.Finalizers, func(name string) bool { return name == metav1.FinalizerOrphanDependents })
	})
	if !f.Gone() {
		t.Error("the provisioner is still there")
	}
	if after := f.Deployment(); after.UID != before.UID || len(after.OwnerReferences) > 0 {
		t.Errorf("the Deployment was %s and is %s with the owners %v", before.UID, after.UID, after.OwnerReferences)
	}
	roles, bindings := &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}
	f.List(roles)
	f.List(bindings)
	if f.keyNames() != "gpu" || len(roles.Items) != 2 || len(bindings.Items) != 2 {
		t.Errorf("the pods have the keys %q, %d Roles and %d RoleBindings", f.keyNames(), len(roles.Items), len(bindings.Items))
	}
	const told = `Normal Orphaned: the pods keep running, and what they need stays; delete it when no pod uses it: ` +
		`provisioner key "gpu" in organization "coder"; the Roles and RoleBindings with the labels "coder.com/provisioner-namespace=coder,coder.com/provisioner=gpu"`
	if f.Events.Count(told) != 1 || f.Events.Count("Normal Orphaned") != 1 {
		t.Errorf("Events: %q", f.Events.All())
	}
}

// The garbage collector finished while no leader ran. Only the Deployment shows that it was orphaned.
func TestDeletionThatOrphansWhileNoLeaderRunsLeavesTheKey(t *testing.T) {
	f := readyFixture(t)
	d := f.Deployment()
	d.OwnerReferences, d.CreationTimestamp = nil, f.Object().CreationTimestamp
	f.Update(d)
	f.Delete()
	f.restart()
	f.Reconcile()
	if !f.Gone() || !f.Has(d.Name, d) || f.keyNames() != "gpu" || f.Events.Count("Normal Orphaned") != 1 {
		t.Errorf("gone: %t, keys %q, Events: %q", f.Gone(), f.keyNames(), f.Events.All())
	}
}

// An annotation with an invalid name for a Deployment does not block the deletion.
func TestDeletionWithANameThatIsNone(t *testing.T) {
	f := readyFixture(t)
	f.Edit(func(cr *coderv1alpha1.CoderProvisioner) {
		cr.Annotations = map[string]string{coderv1alpha1.AnnotationWorkloadName: "../coder"}
	})
	f.Reconcile()
	f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonInvalidName)
	f.Delete()
	f.Remove(f.Deployment())
	f.roll()
	f.Reconcile()
	if !f.Gone() || f.keyNames() != "" {
		t.Errorf("gone: %v, keys: %q", f.Gone(), f.keyNames())
	}
}

func TestDeletionWaitsForJobsNoLongerThanTheGracePeriod(t *testing.T) {
	f := readyFixture(t)
	f.slow = true
	f.Delete()
	f.Forward(629 * time.Second)
	f.Reconcile()
	if f.Gone() {
		t.Fatal("gone before the grace period is over")
	}
	f.Forward(time.Second)
	f.Reconcile()
	if !f.Gone() || f.keyNames() != "" {
		t.Errorf("gone: %v, keys: %q", f.Gone(), f.keyNames())
	}
}

func TestK18AnUnreachableCoderDelaysDeletionForAMinute(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		f := readyFixture(t)
		f.coder.Fail(coderdtest.Fault{DropConnection: true})
		f.Delete()
		f.Reconcile()
		f.roll()
		for _, passed := range []time.Duration{0, 30 * time.Second, 59 * time.Second} {
			f.Clock.SetTime(f.Object().DeletionTimestamp.Add(10*time.Second + passed))
			if result := f.Reconcile(); result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second {
				t.Errorf("after %v it looks again after %v", passed, result.RequeueAfter)
			}
			ready := f.MustHave(coderv1alpha1.ConditionReady, metav1.ConditionFalse, coderv1alpha1.ReasonDeleting)
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
		f.Clock.SetTime(f.Object().DeletionTimestamp.Add(end))
		f.Reconcile()
		if !f.Gone() {
			t.Error("a Coder that does not answer blocks the deletion for good")
		}
		if f.Events.Count(`Warning ProvisionerKeyLeftBehind: provisioner key "gpu" in organization "coder"`) != 1 {
			t.Errorf("Events: %q", f.Events.All())
		}
	}
}

func TestAControlPlaneThatGoesHoldsNoProvisioner(t *testing.T) {
	t.Run("gone", func(t *testing.T) {
		f := readyFixture(t)
		f.slow = true
		f.Remove(newControlPlane())
		f.Delete()
		f.Reconcile()
		if !f.Gone() || f.Events.Count("Warning ProvisionerKeyLeftBehind") != 1 {
			t.Errorf("gone: %v, Events: %q", f.Gone(), f.Events.All())
		}
	})
	for what, fails := range map[string]bool{"being deleted": false, "being deleted, and silent": true} {
		t.Run(what, func(t *testing.T) {
			f := readyFixture(t)
			f.slow = true
			f.editControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Finalizers = []string{"test/hold"} })
			f.Remove(newControlPlane())
			if fails {
				f.coder.Fail(coderdtest.Fault{DropConnection: true})
			}
			f.Delete()
			f.Reconcile()
			left := f.Events.Count("Warning ProvisionerKeyLeftBehind")
			if !f.Gone() || (left == 1) != fails || (f.keyNames() == "gpu") != fails {
				t.Errorf("gone: %v, keys %q, Events: %q", f.Gone(), f.keyNames(), f.Events.All())
			}
		})
	}
}

func TestDeletionOfWhatNeverHadAKeyIsImmediate(t *testing.T) {
	f := newFixture(t, newProvisioner(), newControlPlane())
	f.coder.SetFeature(feature, "not_entitled")
	f.Settle()
	f.coder.Fail(coderdtest.Fault{DropConnection: true})
	f.Delete()
	f.Reconcile()
	if !f.Gone() || f.Events.Count("Warning ProvisionerKeyLeftBehind") > 0 {
		t.Errorf("gone: %v, Events: %q", f.Gone(), f.Events.All())
	}
}

// The Secret was deleted earlier. The key is found through the status.
func TestDeletionFindsTheKeyWithoutItsSecret(t *testing.T) {
	f := readyFixture(t)
	f.Remove(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gpu-provisioner-key"}})
	f.Delete()
	f.Reconcile()
	f.roll()
	f.Reconcile()
	if !f.Gone() || f.keyNames() != "" {
		t.Errorf("gone: %v, keys: %q", f.Gone(), f.keyNames())
	}
}

// Kubernetes may refuse to delete or to list objects in its namespace, for example by a webhook.
func TestARefusalOfKubernetesDelaysDeletionOnlyUntilTheLimits(t *testing.T) {
	refused := apierrors.NewForbidden(corev1.Resource("objects"), "", errors.New("refused by a webhook"))
	for name, c := range map[string]struct {
		kind any
		end  time.Duration
		left int
	}{
		"the pods":   {&corev1.PodList{}, 630 * time.Second, 0},
		"the Secret": {&corev1.Secret{}, time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyFixture(t)
			for _, pod := range f.pods() {
				f.Remove(&pod)
			}
			f.Cluster = interceptor.NewClient(f.Cluster, interceptor.Funcs{
				Get: func(ctx context.Context, cluster client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if reflect.TypeOf(obj) == reflect.TypeOf(c.kind) {
						return refused
					}
					return cluster.Get(ctx, key, obj, opts...)
				},
				List: func(ctx context.Context, cluster client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if reflect.TypeOf(list) == reflect.TypeOf(c.kind) {
						return refused
					}
					return cluster.List(ctx, list, opts...)
				},
			})
			f.restart()
			f.Delete()
			for _, passed := range []time.Duration{0, c.end - time.Second} {
				f.Clock.SetTime(f.Object().DeletionTimestamp.Add(passed))
				if _, err := f.Try(); !apierrors.IsForbidden(err) {
					t.Errorf("after %v the error is %v", passed, err)
				}
			}
			f.Forward(time.Second)
			f.Reconcile()
			if !f.Gone() || f.Events.Count("Warning ProvisionerKeyLeftBehind") != c.left {
				t.Errorf("gone: %v, Events: %q", f.Gone(), f.Events.All())
			}
		})
	}
}
