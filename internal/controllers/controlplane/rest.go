package controlplane

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// rests remembers of each control plane that works what Coder said last, so that a
// pass that is for something else does not ask again.
type rests struct {
	mu    sync.Mutex
	known map[types.NamespacedName]finding
}

// finding is a Coder that works, until when that is believed, and as long as what.
type finding struct {
	basis  basis
	until  time.Time
	build  coderd.BuildInfo
	access access.Result
}

// basis is everything in the cluster on which the answer depends. It differs after
// each write of one of them.
type basis struct {
	uid         types.UID
	generation  int64
	url         string
	deployment  types.UID
	podTemplate int64
	secrets     string
}

// remember keeps what a pass saw, where all of it works, and forgets it otherwise.
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

// recall is what is believed still, or nil.
func (r *rests) recall(s *scope, now basis) *finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[client.ObjectKeyFromObject(s.cp)]
	if !ok || known.basis != now || !s.Now.Before(known.until) {
		return nil
	}
	return &known
}

// left is for how long it is believed.
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
