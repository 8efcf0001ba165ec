package framework

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
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
		// The operator may have granted permissions in a namespace when it watched it.
		for _, namespace := range resources.WorkspaceNamespaces(p.Workload) {
			if !t.watches(namespace) {
				t.Tell(p, corev1.EventTypeWarning, coderv1alpha1.ReasonGrantsLeftBehind, fmt.Sprintf(
					"the operator does not watch namespace %q, so it revoked no permissions for workspaces there; "+
						"delete the Roles and RoleBindings with the labels %q there, if there are any",
					namespace, labels.FormatLabels(p.Workload.Rights.OwnerLabels)))
			}
		}
	}
	if len(p.Stays) > 0 {
		t.Tell(p, corev1.EventTypeNormal, coderv1alpha1.ReasonOrphaned,
			"the pods keep running, and what they need stays; delete it when no pod uses it: "+strings.Join(p.Stays, "; "))
	}
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
	return nil
}

// orphaning remembers the objects that were deleted with --cascade=orphan. Only a finalizer shows
// this, and the garbage collector removes the finalizer as soon as it has removed the owner
// references from the children that it knows. A pass may start later than that, so a watch
// predicate records these objects. A leader that did not run then has no record, so FindOrphaned reads
// the Deployment.
type orphaning struct{ known sync.Map }

// watched returns a predicate that records objects and accepts every event.
func (o *orphaning) watched() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { o.note(e.Object); return true },
		UpdateFunc: func(e event.UpdateEvent) bool { o.note(e.ObjectNew); return true },
		DeleteFunc: func(e event.DeleteEvent) bool { o.known.Delete(e.Object.GetUID()); return true },
	}
}

// note records an object if it is being deleted and its children must be kept.
func (o *orphaning) note(obj client.Object) {
	if asksToOrphan(obj) {
		o.known.Store(obj.GetUID(), true)
	}
}

func asksToOrphan(obj client.Object) bool {
	return !obj.GetDeletionTimestamp().IsZero() && controllerutil.ContainsFinalizer(obj, metav1.FinalizerOrphanDependents)
}

// FindOrphaned reads from the API server whether the garbage collector has orphaned the Deployment of
// an object that is being deleted, and records that. All steps of a deletion that depend on
// LeavesChildren need this step.
func (t *Toolkit) FindOrphaned(ctx context.Context, p *Pass) error {
	if t.LeavesChildren(p) || InvalidName(p) != "" {
		return nil
	}
	d := &appsv1.Deployment{}
	err := t.Live.Get(ctx, client.ObjectKey{Namespace: p.Workload.Namespace, Name: p.Workload.Name}, d)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Deployment %q: %w", p.Workload.Name, err)
	}
	// Until the finalizer is removed, a deletion with --cascade=orphan removes the owner reference. If somebody
	// removed it by hand, the pods also go on, so what they need is kept too. A Deployment that is older than the
	// object belonged to it only if it was handed over. Otherwise an earlier object of the same name left it.
	handedOver := d.Annotations[coderv1alpha1.AnnotationAdopt] == p.adoptValue()
	if err == nil && d.DeletionTimestamp.IsZero() && metav1.GetControllerOf(d) == nil &&
		labels.SelectorFromSet(p.Workload.Labels).Matches(labels.Set(d.Labels)) &&
		(handedOver || !d.CreationTimestamp.Before(new(p.Object.GetCreationTimestamp()))) {
		t.orphaning.known.Store(p.Object.GetUID(), true)
	}
	return nil
}

// LeavesChildren reports whether the object is being deleted and its children must be kept.
func (t *Toolkit) LeavesChildren(p *Pass) bool {
	_, noted := t.orphaning.known.Load(p.Object.GetUID())
	return p.Deleting() && (noted || asksToOrphan(p.Object))
}
