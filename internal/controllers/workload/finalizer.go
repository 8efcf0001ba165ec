package workload

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

const (
	// DeletionLimit is the maximum time for which an unreachable Coder, or missing permissions, delay
	// a deletion. After that, an Event reports what remains.
	DeletionLimit = time.Minute
	// DeletionRetry is the time between two passes over an object that is being deleted.
	DeletionRetry = 5 * time.Second
	// DeletionTry is the timeout of one attempt to delete something in Coder.
	DeletionTry = 20 * time.Second
)

// DeletionTimeLeft returns the time until a limit since the deletion was requested. It is not positive when that time is over.
func (p *Pass) DeletionTimeLeft(limit time.Duration) time.Duration {
	since := p.Object.GetDeletionTimestamp().Time
	if coderd.Elapsed(p.Now, since, limit) {
		return 0
	}
	return limit - p.Now.Sub(since)
}

// WaitForDeletion returns the Stop with which a step of a deletion waits for its next attempt, at
// most as long as there is time left.
func WaitForDeletion(left time.Duration, message string) error {
	return ensure.Waits(coderv1alpha1.ReasonDeleting, min(DeletionRetry, left), "%s", message)
}

// UntilDeleted describes, for the status, what a deletion waits for within DeletionLimit, and why.
func UntilDeleted(what, why string) string {
	return "until " + what + ", for at most one minute: " + Redact(why)
}

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
	for _, kind := range t.childKinds() {
		for _, name := range []string{p.Workload.Name, p.Workload.ServiceAccountName, resources.MetricsServiceName(p.Workload)} {
			kind.SetNamespace(p.Workload.Namespace)
			kind.SetName(name)
			t.Applier.Forget(kind)
		}
	}
	t.contents.Delete(p.Object.GetUID())
	t.starts.end(p)
	t.orphaning.known.Delete(p.Object.GetUID())
	t.Gone(p.Kind, client.ObjectKeyFromObject(p.Object))
}
