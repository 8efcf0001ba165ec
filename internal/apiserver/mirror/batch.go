package mirror

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// batch is a set of objects that are committed together. It holds the locks of their keys.
type batch[Item any] struct {
	feed      *feed[Item]
	unlocks   []func()
	proposals []records.Proposal
	// waiting holds the items of the proposals. done holds the items whose object is in the log.
	waiting, done []*seen[Item]
}

// lock takes the lock of an object's key and checks that the object is still up to date. It never
// waits: a client's write has priority.
func (b *batch[Item]) lock(ctx context.Context, connection connections.Connection, s *seen[Item]) bool {
	first := len(b.unlocks)
	unlock, ok := b.feed.Store.TryLock(s.key)
	if !ok {
		return false
	}
	b.unlocks = append(b.unlocks, unlock)
	if !b.feed.unchanged(s) {
		b.unlockFrom(first)
		return false
	}
	if err := b.complete(ctx, connection, s); err != nil {
		log.FromContext(ctx).Error(err, "Keeping the metadata of an object", "kind", b.feed.kind, "id", s.id)
		b.unlockFrom(first)
		return false
	}
	return true
}

// complete updates the record of an object.
func (b *batch[Item]) complete(ctx context.Context, connection connections.Connection, s *seen[Item]) error {
	key := s.key
	if err := b.feed.adopt(ctx, connection, s); err != nil {
		return err
	}
	if s.key != key {
		return fmt.Errorf("the %s %q changed its name by its own metadata", b.feed.kind, s.object.GetName())
	}
	return b.feed.keepGeneration(ctx, s)
}

// add proposes the object if it differs from the log.
func (b *batch[Item]) add(_ context.Context, s *seen[Item]) {
	switch {
	case s.entry == nil:
		b.propose(s, 0)
	case same(s.entry, s.object, s.natural):
		b.done = append(b.done, s)
	default:
		b.propose(s, s.entry.Revision)
	}
}

func (b *batch[Item]) propose(s *seen[Item], expect uint64) {
	b.proposals = append(b.proposals, records.Proposal{Key: s.key, Expect: expect, Object: s.object, Natural: s.natural})
	b.waiting = append(b.waiting, s)
}

// commit commits all proposals to the log.
func (b *batch[Item]) commit(ctx context.Context) error {
	err := b.feed.Store.Propose(ctx, b.proposals...)
	changed, err := changedKeys(err)
	for _, s := range b.waiting {
		switch {
		case err != nil || changed[s.key]:
			b.feed.mark(s.id, soon)
		default:
			b.done = append(b.done, s)
		}
	}
	if err != nil {
		return fmt.Errorf("committing %d objects of kind %s: %w", len(b.proposals), b.feed.kind, err)
	}
	b.feed.plane.config.Metrics.committed(b.feed.kind, len(b.proposals))
	return nil
}

func (b *batch[Item]) unlock() { b.unlockFrom(0) }

func (b *batch[Item]) unlockFrom(first int) {
	for _, unlock := range b.unlocks[first:] {
		unlock()
	}
	b.unlocks = b.unlocks[:first]
}
