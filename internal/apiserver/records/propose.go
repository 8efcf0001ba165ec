package records

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
)

// proposalsAtOnce limits the number of records that are written concurrently. etcd batches them
// into one disk write.
const proposalsAtOnce = 16

// Proposal is a change of one key. The caller must hold the key's lock.
type Proposal struct {
	Key string
	// Expect is the revision of the Entry of the key, or 0 if there is none.
	Expect uint64
	// Object is nil to delete the key. The Table owns it from then on.
	Object Object
	// Natural is the name that is derived from the current names in Coder. It is empty if there is
	// none.
	Natural string
}

// ChangedError lists the proposals that were based on an outdated state. errors.Is reports that it
// is ErrChanged.
type ChangedError struct {
	Keys []string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%v: %s", ErrChanged, strings.Join(e.Keys, ", "))
}

// Is reports whether target is ErrChanged.
func (e *ChangedError) Is(target error) bool { return target == ErrChanged }

// TryLock acquires the lock of a key, unless this or another replica is writing it.
func (s *Store) TryLock(key string) (unlock func(), ok bool) {
	if busy, _ := s.Table.foreign(key, s.mine); busy {
		return nil, false
	}
	return s.Table.locks.tryLock(key)
}

// Propose writes objects that were read from the system of record. If a record is not as expected,
// the error is a ChangedError, and the other proposals are written nevertheless. After any other
// error, some of them may be written too.
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
