package mirror

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// releaseAllBut removes the records of control planes that are not served. It returns the control
// planes that still have records.
func (e *epoch) releaseAllBut(ctx context.Context, served map[types.NamespacedName]connections.Member) map[types.NamespacedName]bool {
	names := sets.Set[types.NamespacedName]{}
	for _, s := range e.stocks {
		names.Insert(s.controlPlanes()...)
	}
	left := map[types.NamespacedName]bool{}
	for name := range names {
		if _, wanted := served[name]; !wanted {
			// It may be created again before its last record is removed.
			e.orphan(name)
		}
		e.mu.Lock()
		orphaned := e.orphaned[name]
		e.mu.Unlock()
		if !orphaned {
			continue
		}
		all := true
		for _, s := range e.stocks {
			done, err := s.releasePlane(ctx, name)
			if err != nil {
				log.FromContext(ctx).Error(err, "Could not remove the objects of a control plane", "controlPlane", name)
			}
			all = all && done
		}
		if !all {
			left[name] = true
			continue
		}
		e.mu.Lock()
		delete(e.orphaned, name)
		e.mu.Unlock()
		log.FromContext(ctx).Info("Removed the objects of a control plane that is no longer served", "controlPlane", name)
	}
	return left
}

// kindStock is a stock of any kind.
type kindStock interface {
	controlPlanes() []types.NamespacedName
	releasePlane(ctx context.Context, name types.NamespacedName) (done bool, err error)
}

// controlPlanes returns the control planes that have records.
func (s *stock[Item]) controlPlanes() []types.NamespacedName { return s.Store.Table.ControlPlanes() }

// releasePlane removes the records of a control plane, except those that are being written. It
// reports whether none is left. A removal that kube-apiserver does not accept does not affect the others.
func (s *stock[Item]) releasePlane(ctx context.Context, name types.NamespacedName) (done bool, err error) {
	for some := range slices.Chunk(s.Store.Table.Removals(name), commitsAtOnce) {
		refused, failed := s.release(ctx, some)
		if failed != nil {
			return false, failed
		}
		err = cmp.Or(err, refused)
	}
	return len(s.Store.Table.Removals(name)) == 0, err
}

// release removes the records whose locks are free. It also returns why kube-apiserver does not accept one of the removals.
func (s *stock[Item]) release(ctx context.Context, removals []records.Proposal) (refused, err error) {
	var free []records.Proposal
	for _, p := range removals {
		unlock, ok := s.Store.TryLock(p.Key)
		if !ok {
			continue
		}
		defer unlock()
		free = append(free, p)
	}
	unwritten, err := s.propose(ctx, free...)
	for _, reason := range unwritten {
		if records.IsRefused(reason) {
			refused = reason
		}
	}
	return refused, err
}
