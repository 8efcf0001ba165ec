package controlplane

import (
	"cmp"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// rests caches Coder's last answer for each working control plane, so that a pass with another
// trigger does not ask again.
type rests struct {
	mu    sync.Mutex
	known map[types.NamespacedName]finding
}

// finding is a cached result about a working Coder. It is valid until a time, and as long as its
// basis does not change.
type finding struct {
	basis  basis
	until  time.Time
	build  coderd.BuildInfo
	access access.Result
}

// basis identifies everything in the cluster on which the answer depends. It changes when the spec
// of the control plane or of its Deployment changes, and with each write to one of the Secrets.
type basis struct {
	uid         types.UID
	generation  int64
	url         string
	deployment  types.UID
	podTemplate int64
	secrets     string
}

// remember caches the result of a pass if everything works, and removes the cached result
// otherwise.
func (r *rests) remember(s *scope) {
	key := client.ObjectKeyFromObject(s.cp)
	switch {
	case s.believed:
		return
	case s.build == nil || s.access == nil || s.access.State != access.Ready || s.basis == nil || !s.Available():
		r.forget(key)
		return
	}
	kept := *s.access
	kept.Events = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[types.NamespacedName]finding{}
	}
	r.known[key] = finding{
		basis: *s.basis, until: s.Now.Add(steps.Sooner(workload.RestInterval, kept.RequeueAfter)), build: *s.build, access: kept,
	}
}

// recall returns the cached result if it is still valid, or nil.
func (r *rests) recall(s *scope, now basis) *finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[client.ObjectKeyFromObject(s.cp)]
	if !ok || known.basis != now || !s.Now.Before(known.until) {
		return nil
	}
	return &known
}

// left returns for how long the cached result is still valid, or ConflictInterval if it no longer
// is.
func (r *rests) left(s *scope) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(max(r.known[client.ObjectKeyFromObject(s.cp)].until.Sub(s.Now), 0), workload.ConflictInterval)
}

func (r *rests) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, key)
}

// refusalsAtOnce is the capacity of the queue of reported control planes.
const refusalsAtOnce = 1024

// refusals are the control planes for which other code in this process saw that Coder rejects the
// operator's token or does not work, and that were not reconciled since.
type refusals struct {
	events chan event.GenericEvent

	mu      sync.Mutex
	waiting map[types.NamespacedName]bool
}

// Refused requests an immediate pass over a control plane that does not reuse earlier results about
// its token and its Coder. Call it if Coder rejected the token (401) or could not serve the
// request, for example because its database is unreachable. It never blocks.
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
		// The queue is full. The next failure reports the control plane again.
	}
}

// take reports whether a control plane was reported, and removes it.
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
