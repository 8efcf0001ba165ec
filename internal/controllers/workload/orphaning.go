package workload

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// orphaning remembers the objects that were deleted with --cascade=orphan. Only a finalizer shows
// this, and the garbage collector removes the finalizer as soon as it has removed the owner
// references from the children that it knows. A pass may start later than that, so a watch
// predicate records these objects.
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

// LeavesChildren reports whether the object is being deleted and its children must be kept.
func (t *Toolkit) LeavesChildren(p *Pass) bool { return p.Deleting() && t.orphaning.of(p.Object) }
