package mirror

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// batch is a number of objects that are committed together. It holds the locks of
// their keys.
type batch[Item any] struct {
	feed      *feed[Item]
	unlocks   []func()
	proposals []objectlog.Proposal
	// waiting are the items of the proposals, done those whose object is in the log.
	waiting, done []*seen[Item]
	// displaced are objects whose name another one has now.
	displaced []*objectlog.Entry
}

// lock takes the locks of the keys that an object has and had, and makes sure that
// it is still right under them. It never waits: a client's write goes first.
func (b *batch[Item]) lock(ctx context.Context, connection connections.Connection, s *seen[Item]) bool {
	keys := []string{s.key}
	if s.entry != nil && s.entry.Key != s.key {
		keys = append(keys, s.entry.Key)
	}
	first := len(b.unlocks)
	for _, key := range keys {
		unlock, ok := b.feed.Log.TryLock(key)
		if !ok {
			b.unlockFrom(first)
			return false
		}
		b.unlocks = append(b.unlocks, unlock)
	}
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

// complete brings the record of an object up to date.
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

// add proposes what the log does not have.
func (b *batch[Item]) add(_ context.Context, s *seen[Item]) {
	if s.entry != nil && s.entry.Key == s.key {
		if same(s.entry.Object, s.object) {
			b.done = append(b.done, s)
			return
		}
		b.propose(s, s.entry.Revision)
		return
	}
	if s.entry != nil {
		// A rename: the object goes under one name and comes under the other.
		b.proposals = append(b.proposals, objectlog.Proposal{Key: s.entry.Key, Expect: s.entry.Revision})
		b.waiting = append(b.waiting, nil)
	}
	if occupant := b.feed.Log.Get(s.key); occupant != nil {
		// Coder gives a name once. Whoever had it has another one now, or is gone.
		b.displaced = append(b.displaced, occupant)
		b.proposals = append(b.proposals, objectlog.Proposal{Key: occupant.Key, Expect: occupant.Revision})
		b.waiting = append(b.waiting, nil)
	}
	b.propose(s, 0)
}

func (b *batch[Item]) propose(s *seen[Item], expect uint64) {
	b.proposals = append(b.proposals, objectlog.Proposal{Key: s.key, Expect: expect, Object: s.object})
	b.waiting = append(b.waiting, s)
}

// commit brings everything into the log.
func (b *batch[Item]) commit(ctx context.Context) error {
	_, err := b.feed.Sequencer.Propose(ctx, b.proposals...)
	changed, err := changedKeys(err)
	for _, s := range b.waiting {
		switch {
		case s == nil:
		case err != nil || changed[s.key]:
			b.feed.mark(s.id, soon)
		default:
			b.done = append(b.done, s)
		}
	}
	for _, entry := range b.displaced {
		b.feed.mark(idOf(entry.Object), 0)
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
