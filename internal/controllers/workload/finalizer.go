package workload

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
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
		for _, kind := range t.childKinds() {
			// The cache may not contain a child that was just adopted.
			if err := t.detachAll(ctx, p, t.Live, kind); err != nil {
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
