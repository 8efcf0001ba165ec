package framework

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// adoptedFixture returns a fixture with a control plane that has adopted a Deployment and a
// Service.
func adoptedFixture(t *testing.T) *fixture {
	t.Helper()
	const to = "CoderControlPlane/coder"
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "coder", Name: "coder", UID: "of-the-chart", Annotations: map[string]string{coderv1alpha1.AnnotationAdopt: to},
	}}
	service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	f := newFixture(t, newControlPlane(withDatabase), database("one"), chartDeployment(to), service)
	f.Settle()
	if len(f.owned()) < 3 {
		t.Fatalf("the control plane owns only %q", f.owned())
	}
	return f
}

// owned returns the names of the children with an owner reference. The garbage collector deletes
// them with the owner.
func (f *fixture) owned() (names []string) {
	f.T.Helper()
	f.eachChild(func(child client.Object) {
		if len(child.GetOwnerReferences()) > 0 {
			names = append(names, f.kit.childName(child))
		}
	})
	return names
}

func (f *fixture) eachChild(do func(client.Object)) {
	f.T.Helper()
	for _, kind := range Children() {
		children, err := f.kit.owned(f.T.Context(), &Pass{Object: newControlPlane()}, f.Cluster, kind)
		if err != nil {
			f.T.Fatal(err)
		}
		for _, child := range children {
			do(child)
		}
	}
}

// deleteOrphaning deletes the control plane like kubectl delete --cascade=orphan.
func (f *fixture) deleteOrphaning() {
	f.T.Helper()
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		controllerutil.AddFinalizer(cp, metav1.FinalizerOrphanDependents)
	})
	f.Remove(f.Object())
}

// collectGarbage orphans all children like the garbage collector, except one that it does not know
// yet.
func (f *fixture) collectGarbage(unknown string) {
	f.T.Helper()
	f.eachChild(func(child client.Object) {
		if f.kit.childName(child) == unknown {
			return
		}
		child.SetOwnerReferences(nil)
		if err := f.Cluster.Update(f.T.Context(), child); err != nil {
			f.T.Fatal(err)
		}
	})
	f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
		controllerutil.RemoveFinalizer(cp, metav1.FinalizerOrphanDependents)
	})
}

// mustLetGo finishes the deletion. Afterwards no child may refer to the control plane.
func (f *fixture) mustLetGo() {
	f.T.Helper()
	f.Reconcile()
	if f.Has("coder", &coderv1alpha1.CoderControlPlane{}) {
		f.T.Fatal("the control plane is still there")
	}
	if left := f.owned(); len(left) > 0 {
		f.T.Errorf("the garbage collector deletes %q, although the control plane was deleted with --cascade=orphan", left)
	}
	if !f.Has("coder", &corev1.Service{}) {
		f.T.Error("the Service is gone")
	}
}

// A stale cache does not show the deletion, so the control plane appears able to adopt, and its
// orphaned children look as if they had just been handed over.
func TestAControlPlaneThatIsDeletedAdoptsNothing(t *testing.T) {
	for name, fate := range map[string]func(*fixture){
		"being deleted": func(*fixture) {},
		"gone":          func(f *fixture) { f.mustLetGo() },
	} {
		t.Run(name, func(t *testing.T) {
			f := adoptedFixture(t)
			cached := f.Object()
			f.deleteOrphaning()
			f.collectGarbage("")
			fate(f)
			f.kit.Client = interceptor.NewClient(f.Cluster, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if cp, ok := obj.(*coderv1alpha1.CoderControlPlane); ok {
						cached.DeepCopyInto(cp)
						return nil
					}
					return c.Get(ctx, key, obj, opts...)
				},
			})
			result, err := f.Try()
			if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
				t.Errorf("it looks again after %v (%v)", result.RequeueAfter, err)
			}
			if adopted := f.owned(); len(adopted) > 0 {
				t.Errorf("it adopted %q", adopted)
			}
		})
	}
}

// The garbage collector orphans only the children that it knows when it receives the deletion.
func TestOrphaningDoesNotDependOnTheGarbageCollector(t *testing.T) {
	t.Run("the garbage collector is slow", func(t *testing.T) {
		f := adoptedFixture(t)
		f.deleteOrphaning()
		f.Reconcile()
		if left := f.owned(); len(left) > 0 {
			t.Errorf("%q refer to the control plane when the operator has let it go", left)
		}
		f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
			controllerutil.RemoveFinalizer(cp, metav1.FinalizerOrphanDependents)
		})
		if !f.Has("coder", &corev1.Service{}) {
			t.Error("the Service is gone")
		}
	})
	// The garbage collector finishes before a pass begins, so only the watch has seen the
	// finalizer.
	t.Run("the garbage collector is fast and does not know a child", func(t *testing.T) {
		f := adoptedFixture(t)
		f.deleteOrphaning()
		if keep := f.kit.orphaning.watched().Update(event.UpdateEvent{ObjectNew: f.Object()}); !keep {
			t.Error("the watch keeps the deletion from the controller")
		}
		f.collectGarbage("Service/coder")
		if got := f.owned(); len(got) != 1 {
			t.Fatalf("%q refer to the control plane, want the Service alone", got)
		}
		f.mustLetGo()
	})
	t.Run("somebody else writes a child meanwhile", func(t *testing.T) {
		f := adoptedFixture(t)
		f.deleteOrphaning()
		disturbed := false
		f.kit.Client = interceptor.NewClient(f.Cluster, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if _, ok := obj.(*corev1.Service); ok && !disturbed {
					disturbed = true
					other := &corev1.Service{}
					f.Get("coder", other)
					other.Labels["other"] = "yes"
					if err := f.Cluster.Update(ctx, other); err != nil {
						return err
					}
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		})
		if result := f.Reconcile(); result.RequeueAfter != ConflictInterval {
			t.Errorf("it looks again after %v, want %v", result.RequeueAfter, ConflictInterval)
		}
		if !f.Has("coder", &coderv1alpha1.CoderControlPlane{}) {
			t.Fatal("the control plane is gone before its children are free")
		}
		f.collectGarbage("Service/coder")
		f.mustLetGo()
		service := &corev1.Service{}
		if f.Get("coder", service); service.Labels["other"] != "yes" {
			t.Errorf("the labels of somebody else are %v", service.Labels)
		}
	})
}

// The pods need their permissions. In the namespace of the owner, the garbage collector would delete
// them with it, as for any other child.
func TestOrphaningLeavesThePermissionsForWorkspaces(t *testing.T) {
	f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.RBAC.WorkspaceNamespaces = []string{"work"} }))
	f.Settle()
	f.deleteOrphaning()
	f.Reconcile()
	for _, namespace := range []string{"coder", "work"} {
		role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
		f.GetIn(namespace, resources.WorkspaceRoleName(f.last.Workload, namespace), role)
		f.GetIn(namespace, resources.WorkspaceRoleBindingName(f.last.Workload, namespace), binding)
		if owners := append(role.OwnerReferences, binding.OwnerReferences...); len(owners) > 0 {
			t.Errorf("in namespace %s they belong to %v", namespace, owners)
		}
	}
	if !f.last.Released || f.Events.Count("Normal Orphaned") != 1 {
		t.Errorf("released: %t, Events: %q", f.last.Released, f.Events.All())
	}
}

// withRoles returns a fixture with a control plane that has granted permissions in the namespace
// "work", and whose Deployment was created after it.
func withRoles(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, newControlPlane(func(cp *coderv1alpha1.CoderControlPlane) { cp.Spec.RBAC.WorkspaceNamespaces = []string{"work"} }))
	f.Settle()
	f.editDeployment(func(d *appsv1.Deployment) { d.CreationTimestamp = f.Object().CreationTimestamp })
	return f
}

func (f *fixture) editDeployment(change func(*appsv1.Deployment)) {
	f.T.Helper()
	d := f.Deployment()
	change(d)
	f.Update(d)
}

// hasRoles reports whether the permissions in the namespace "work" are granted.
func (f *fixture) hasRoles() bool {
	f.T.Helper()
	w := f.last.Workload
	return f.Find("work", resources.WorkspaceRoleName(w, "work"), &rbacv1.Role{}) &&
		f.Find("work", resources.WorkspaceRoleBindingName(w, "work"), &rbacv1.RoleBinding{})
}

// The garbage collector finished while no leader ran, so the new leader sees a deletion without the
// finalizer. Only the Deployment shows that it was orphaned.
func TestOrphaningThatNoLeaderSawLeavesThePermissions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"created":          {func(*appsv1.Deployment) {}, true},
		"without replicas": {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) }, true},
		"adopted": {func(d *appsv1.Deployment) {
			d.CreationTimestamp = metav1.Time{}
			d.Annotations[coderv1alpha1.AnnotationAdopt] = "CoderControlPlane/coder"
		}, true},
		"of an earlier object":  {func(d *appsv1.Deployment) { d.CreationTimestamp = metav1.Time{} }, false},
		"of a chart":            {func(d *appsv1.Deployment) { d.Labels = chartLabels() }, false},
		"of another controller": {func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "other" }, false},
		"being deleted":         {func(d *appsv1.Deployment) { d.Finalizers = []string{"test/hold"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := withRoles(t)
			f.deleteOrphaning()
			f.editDeployment(c.change)
			if name == "being deleted" {
				f.Remove(f.Deployment())
			}
			if name != "of another controller" {
				f.collectGarbage("")
			} else {
				f.Edit(func(cp *coderv1alpha1.CoderControlPlane) {
					controllerutil.RemoveFinalizer(cp, metav1.FinalizerOrphanDependents)
				})
			}
			f.restart()
			f.Reconcile()
			if f.Has("coder", &coderv1alpha1.CoderControlPlane{}) {
				t.Fatal("the control plane is still there")
			}
			if f.hasRoles() != c.want || (f.Events.Count("Normal Orphaned") == 1) != c.want {
				t.Errorf("permissions: %t, want %t; Events: %q", f.hasRoles(), c.want, f.Events.All())
			}
		})
	}
}

// An error says nothing about the kind of deletion.
func TestADeploymentThatCannotBeReadDelaysTheDeletion(t *testing.T) {
	f := withRoles(t)
	f.Remove(f.Object())
	f.restart()
	live := f.kit.Live
	f.kit.Live = interceptor.NewClient(f.Cluster, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*appsv1.Deployment); ok {
				return apierrors.NewTimeoutError("too slow", 1)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	if _, err := f.Try(); !apierrors.IsTimeout(err) {
		t.Errorf("the error is %v", err)
	}
	if !f.Has("coder", &coderv1alpha1.CoderControlPlane{}) || !f.hasRoles() {
		t.Fatal("the deletion went on")
	}
	f.kit.Live = live
	f.Reconcile()
	if f.Has("coder", &coderv1alpha1.CoderControlPlane{}) || f.hasRoles() {
		t.Error("the deletion did not go on")
	}
}

// Without --cascade=orphan the children are deleted with the control plane.
func TestOtherDeletionsLeaveTheOwnerOnItsChildren(t *testing.T) {
	f := adoptedFixture(t)
	before := f.owned()
	f.Remove(f.Object())
	f.Reconcile()
	if f.Has("coder", &coderv1alpha1.CoderControlPlane{}) {
		t.Fatal("the control plane is still there")
	}
	if after := f.owned(); len(after) != len(before) {
		t.Errorf("%q refer to the control plane, before %q", after, before)
	}
}
