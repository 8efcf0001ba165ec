package mirror

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// releaseAllBut removes the objects of control planes that are not served from the logs. It returns
// the control planes that still have objects.
func (e *epoch) releaseAllBut(ctx context.Context, served map[types.NamespacedName]connections.Member) map[types.NamespacedName]bool {
	left := map[types.NamespacedName]bool{}
	for _, name := range e.orphans(served) {
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

// orphans returns the control planes that have objects in the log but no mirror.
func (e *epoch) orphans(served map[types.NamespacedName]connections.Member) []types.NamespacedName {
	seen := map[types.NamespacedName]bool{}
	var all []types.NamespacedName
	var names []types.NamespacedName
	for _, s := range e.stocks {
		names = append(names, s.controlPlanes()...)
	}
	for _, name := range names {
		_, wanted := served[name]
		e.mu.Lock()
		orphan := !wanted || e.orphaned[name]
		e.mu.Unlock()
		if orphan && !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

// kindStock is a stock of any kind.
type kindStock interface {
	controlPlanes() []types.NamespacedName
	releasePlane(ctx context.Context, name types.NamespacedName) (done bool, err error)
}

// controlPlanes returns the control planes that have objects in the log.
func (s *stock[Item]) controlPlanes() []types.NamespacedName { return s.Store.Table.ControlPlanes() }

// releasePlane removes the objects of a control plane from a log, except those that are being
// written. It reports whether none is left.
func (s *stock[Item]) releasePlane(ctx context.Context, name types.NamespacedName) (done bool, err error) {
	entries := s.Store.Table.Of(name)
	for len(entries) > 0 && err == nil {
		n := min(commitsAtOnce, len(entries))
		err = s.release(entries[:n], func(proposals ...records.Proposal) error {
			return s.Store.Propose(ctx, proposals...)
		})
		entries = entries[n:]
	}
	return err == nil && s.Store.Table.Count(name) == 0, err
}

// release removes the entries whose locks are free from the log.
func (s *stock[Item]) release(entries []*records.Entry, propose func(...records.Proposal) error) error {
	var proposals []records.Proposal
	for _, entry := range entries {
		unlock, ok := s.Store.TryLock(entry.Key)
		if !ok {
			continue
		}
		defer unlock()
		proposals = append(proposals, records.Proposal{Key: entry.Key, Expect: entry.Revision})
	}
	_, err := changedKeys(propose(proposals...))
	return err
}

// Release removes all objects of a namespace from the logs, without requests to Coder. It returns
// when they are gone. Only the writer may call it, and only for a namespace for which
// Config.Released returns true. In any other namespace the objects would come back.
func (m *Mirror) Release(ctx context.Context, namespace string) error {
	if err := releaseNamespace(ctx, m.config.Workspaces, namespace); err != nil {
		return fmt.Errorf("releasing the workspaces of namespace %q: %w", namespace, err)
	}
	if err := releaseNamespace(ctx, m.config.Templates, namespace); err != nil {
		return fmt.Errorf("releasing the templates of namespace %q: %w", namespace, err)
	}
	if m.config.Users.Store == nil {
		return nil
	}
	if err := releaseNamespace(ctx, m.config.Users, namespace); err != nil {
		return fmt.Errorf("releasing the users of namespace %q: %w", namespace, err)
	}
	return nil
}

func releaseNamespace[Item any](ctx context.Context, r Resource[Item], namespace string) error {
	for ctx.Err() == nil {
		entries := r.Store.Table.In(namespace, commitsAtOnce)
		if len(entries) == 0 {
			return nil
		}
		if err := releaseEntries(ctx, r, entries); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// releaseEntries waits for the lock of each entry, then removes all of them in one commit.
func releaseEntries[Item any](ctx context.Context, r Resource[Item], entries []*records.Entry) error {
	var proposals []records.Proposal
	for _, entry := range entries {
		// The keys are locked in their order. No other code waits for more than one lock.
		unlock, err := r.Store.Table.Lock(ctx, entry.Key)
		if err != nil {
			return fmt.Errorf("waiting for a write of %s: %w", entry.Key, err)
		}
		defer unlock()
		proposals = append(proposals, records.Proposal{Key: entry.Key, Expect: entry.Revision})
	}
	err := r.Store.Propose(ctx, proposals...)
	_, err = changedKeys(err)
	return err
}
