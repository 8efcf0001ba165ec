package records

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
)

// proposalsAtOnce is how many records are written at the same time: etcd writes those
// to its disk together.
const proposalsAtOnce = 16

// Proposal asks for a change of one key. Who proposes holds the key's lock.
type Proposal struct {
	Key string
	// Expect is the revision of the Entry of the key, 0 where there is none.
	Expect uint64
	// Object is nil to remove the key. It belongs to the Table from here on.
	Object Object
	// Natural is the name that Coder's names give the object now. Empty is that it has none.
	Natural string
}

// ChangedError says which proposals were based on something else than what is there.
// errors.Is finds ErrChanged in it.
type ChangedError struct {
	Keys []string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%v: %s", ErrChanged, strings.Join(e.Keys, ", "))
}

// Is makes it one of the kind ErrChanged.
func (e *ChangedError) Is(target error) bool { return target == ErrChanged }

// TryLock takes the lock of a key, where neither this replica nor another one is
// writing it.
func (s *Store) TryLock(key string) (unlock func(), ok bool) {
	if busy, _ := s.Table.foreign(key, s.mine); busy {
		return nil, false
	}
	return s.Table.locks.tryLock(key)
}

// Propose writes what was read from the system of record. Where a record is not as
// expected the error is a ChangedError, and the other proposals are done all the same;
// so they may be with any other error.
func (s *Store) Propose(ctx context.Context, proposals ...Proposal) error {
	changed := make([]bool, len(proposals))
	var group errgroup.Group
	group.SetLimit(proposalsAtOnce)
	for i := range proposals {
		group.Go(func() error {
			err := s.propose(ctx, &proposals[i])
			if changed[i] = errors.Is(err, ErrChanged); changed[i] {
				return nil
			}
			return err
		})
	}
	err := group.Wait()
	var keys []string
	for i := range proposals {
		if changed[i] {
			keys = append(keys, proposals[i].Key)
		}
	}
	if err == nil && len(keys) > 0 {
		return &ChangedError{Keys: keys}
	}
	return err
}

func (s *Store) propose(ctx context.Context, p *Proposal) error {
	current := s.Table.get(p.Key)
	revision := uint64(0)
	if current != nil && current.entry != nil {
		revision = current.entry.Revision
	}
	switch {
	case revision != p.Expect:
		return ErrChanged
	case p.Object == nil && current == nil:
		return nil
	case p.Object == nil:
		return s.remove(ctx, current)
	}
	_, err := s.put(ctx, p.Key, current, p.Object, p.Natural)
	return err
}
