package controlplane

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// refusalsAtOnce is how many control planes can wait to be looked at.
const refusalsAtOnce = 1024

// refusals are the control planes whose Coder refused the operator's token, or did
// not work, somewhere else in this process, and that were not looked at since.
type refusals struct {
	events chan event.GenericEvent

	mu      sync.Mutex
	waiting map[types.NamespacedName]bool
}

// Refused has a control plane looked at at once, without believing that its token
// is good and its Coder works: Coder refused the token (401), or could not do what
// was asked, for example because its database is away. It never blocks.
func (r *Reconciler) Refused(key types.NamespacedName) {
	r.refusals.add(key)
}

func (r *refusals) add(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting[key] {
		return
	}
	name := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case r.events <- event.GenericEvent{Object: name}:
		if r.waiting == nil {
			r.waiting = map[types.NamespacedName]bool{}
		}
		r.waiting[key] = true
	default:
		// Whoever is refused next tells again.
	}
}

// take says whether a control plane was refused, and that it is looked at now.
func (r *refusals) take(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	refused := r.waiting[key]
	delete(r.waiting, key)
	return refused
}

func (r *refusals) source() source.Source {
	return source.Channel(r.events, &handler.TypedEnqueueRequestForObject[client.Object]{})
}
