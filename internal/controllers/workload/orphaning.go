package workload

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

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

// of reports whether the children of an object that is being deleted must be kept.
func (o *orphaning) of(obj client.Object) bool {
	_, noted := o.known.Load(obj.GetUID())
	return noted || asksToOrphan(obj)
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
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading Deployment %q: %w", p.Workload.Name, err)
	case p.wasOrphaned(d):
		t.orphaning.known.Store(p.Object.GetUID(), true)
	}
	return nil
}

// wasOrphaned reports whether a Deployment belonged to the object and has no controller now. Until the
// finalizer is removed, a deletion with --cascade=orphan removes the owner reference. If somebody
// removed it by hand, the pods also go on, so what they need is kept too. A Deployment that is older
// than the object belonged to it only if it was handed over. Otherwise an earlier object of the same
// name left it.
func (p *Pass) wasOrphaned(d *appsv1.Deployment) bool {
	return d.DeletionTimestamp.IsZero() && metav1.GetControllerOf(d) == nil &&
		labels.SelectorFromSet(p.Workload.Labels).Matches(labels.Set(d.Labels)) &&
		(d.Annotations[coderv1alpha1.AnnotationAdopt] == p.adoptValue() || !d.CreationTimestamp.Before(new(p.Object.GetCreationTimestamp())))
}

// LeavesChildren reports whether the object is being deleted and its children must be kept.
func (t *Toolkit) LeavesChildren(p *Pass) bool { return p.Deleting() && t.orphaning.of(p.Object) }
