package controlplane

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// refusalsAtOnce is the capacity of the queue of reported control planes.
const refusalsAtOnce = 1024

// refusals are the control planes for which other code in this process saw that Coder rejects the
// operator's token or does not work, and that were not reconciled since.
type refusals struct {
	events chan event.GenericEvent
	// waiting contains the names of these control planes.
	waiting sync.Map
}

// Refused requests an immediate pass over a control plane that does not reuse earlier results about
// its token and its Coder. Call it if Coder rejected the token (401) or could not serve the
// request, for example because its database is unreachable. It never blocks.
func (r *Reconciler) Refused(key types.NamespacedName) {
	if _, waits := r.refusals.waiting.LoadOrStore(key, true); waits {
		return
	}
	name := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case r.refusals.events <- event.GenericEvent{Object: name}:
	default:
		// The queue is full. The next failure reports the control plane again.
		r.refusals.waiting.Delete(key)
	}
}

// take reports whether a control plane was reported, and removes it.
func (r *refusals) take(key types.NamespacedName) bool {
	_, refused := r.waiting.LoadAndDelete(key)
	return refused
}
