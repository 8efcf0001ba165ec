package workload

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// EnsureFinalizer adds the finalizer. This step runs before the operator creates anything that the
// garbage collector does not delete: Roles and RoleBindings in other namespaces, and what the kind
// creates in Coder.
func (t *Toolkit) EnsureFinalizer(ctx context.Context, p *Pass) error {
	base := p.Object.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(p.Object, p.Kind.Finalizer) {
		return nil
	}
	if err := t.Client.Patch(ctx, p.Object, LockedPatch(base)); err != nil {
		return Settled(fmt.Errorf("adding finalizer %q: %w", p.Kind.Finalizer, err))
	}
	return nil
}

// Release removes the finalizer. The garbage collector then deletes the children, unless the object
// was deleted with --cascade=orphan.
func (t *Toolkit) Release(ctx context.Context, p *Pass) error {
	base := p.Object.DeepCopyObject().(client.Object)
	// The garbage collector orphans children too, but only once and only those that it knows at that time. It
	// may not know a child that was adopted shortly before, and would delete it with its owner. Passes over
	// one object never run concurrently, so no child is adopted afterwards.
	if t.LeavesChildren(p) {
		for _, kind := range append(t.childKinds(), &rbacv1.RoleBinding{}, &rbacv1.Role{}) {
			// The cache may not contain a child that was just adopted.
			if err := t.detachAll(ctx, p, t.Live, kind, nil); err != nil {
				return err
			}
		}
	}
	if controllerutil.RemoveFinalizer(p.Object, p.Kind.Finalizer) {
		err := t.Client.Patch(ctx, p.Object, LockedPatch(base))
		if client.IgnoreNotFound(err) != nil {
			return Settled(fmt.Errorf("removing finalizer %q: %w", p.Kind.Finalizer, err))
		}
	}
	p.Released = true
	if !t.LeavesChildren(p) {
		t.tellUnwatched(p)
	}
	if len(p.Stays) > 0 {
		t.Tell(p, corev1.EventTypeNormal, coderv1alpha1.ReasonOrphaned,
			"the pods keep running, and what they need stays; delete it when no pod uses it: "+strings.Join(p.Stays, "; "))
	}
	t.forget(p)
	return nil
}

func (t *Toolkit) forget(p *Pass) {
	t.Applier.Forget(deploymentOf(p.Workload))
	for _, c := range children() {
		if obj, err := c.build(p.Workload); obj != nil && err == nil {
			t.Applier.Forget(obj)
		}
	}
	t.contents.Delete(p.Object.GetUID())
	t.starts.end(p)
	t.orphaning.known.Delete(p.Object.GetUID())
	t.Gone(p.Kind, client.ObjectKeyFromObject(p.Object))
}
