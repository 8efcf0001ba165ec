package objectlog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// batchLimit bounds how many changes are replicated at once.
	batchLimit = 1024
	// lagLimit is how far the slowest watch may stay behind before writes wait for it.
	lagLimit = 1024
	// lagPause is the step in which they wait, lagPatience how long at most: a watch
	// that hangs must not stop all writes.
	lagPause    = time.Millisecond
	lagPatience = 100 * time.Millisecond
)

// Replicate brings changes to the replicas that follow. Where it fails, nothing
// was decided.
type Replicate func(ctx context.Context, changes []Change) error

// ChangedError says which proposals were based on something else than what the
// log has. errors.Is finds ErrChanged in it.
type ChangedError struct {
	Keys []string
}

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%v: %s", ErrChanged, strings.Join(e.Keys, ", "))
}

// Is makes it one of the kind ErrChanged.
func (e *ChangedError) Is(target error) bool { return target == ErrChanged }

// Sequencer decides the order of changes and their revisions. There is one for
// each log, on the writer.
type Sequencer struct {
	log       *Log
	revisions Revisions
	replicate Replicate
	clock     clock.Clock

	mutex   sync.Mutex
	waiting []*request
	running bool
}

// request is one call of Propose.
type request struct {
	ctx       context.Context //nolint:containedctx // A request waits in a queue with the context of its own call.
	proposals []Proposal
	entries   []*Entry
	err       error
	// done is closed when entries and err are there.
	done chan struct{}
}

// NewSequencer gives a sequencer. replicate may be nil where nobody follows.
func NewSequencer(log *Log, revisions Revisions, replicate Replicate, clock clock.Clock) *Sequencer {
	if replicate == nil {
		replicate = func(context.Context, []Change) error { return nil }
	}
	return &Sequencer{log: log, revisions: revisions, replicate: replicate, clock: clock}
}

// Propose makes changes durable on all replicas and appends them. Whatever waits
// goes as one batch. The result has one entry for each proposal: the new one, or
// nil for a removal and where the key had another revision than expected. In that
// case the error is a ChangedError, and the other proposals are done all the same.
// With any other error none is done.
//
// The context counts only until the proposals' turn has come: a change that is
// under way to other replicas cannot be taken back.
func (s *Sequencer) Propose(ctx context.Context, proposals ...Proposal) ([]*Entry, error) {
	if len(proposals) == 0 {
		return nil, nil
	}
	r := &request{ctx: ctx, proposals: proposals, done: make(chan struct{})}
	s.mutex.Lock()
	s.waiting = append(s.waiting, r)
	if !s.running {
		s.running = true
		go s.run()
	}
	s.mutex.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		if s.withdraw(r) {
			return nil, ctx.Err()
		}
		<-r.done
	}
	return r.entries, r.err
}

// withdraw takes a request back whose turn has not come.
func (s *Sequencer) withdraw(r *request) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	i := slices.Index(s.waiting, r)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}

// run serves what waits, and ends when nothing does.
func (s *Sequencer) run() {
	for !s.idle() {
		// What comes in the meantime joins the batch.
		s.pace()
		batch := s.take()
		s.serve(batch)
		for _, r := range batch {
			close(r.done)
		}
	}
}

// pace waits for the slowest watch: history that it has not read cannot be kept
// without end.
func (s *Sequencer) pace() {
	for waited := time.Duration(0); waited < lagPatience && s.log.Lag() > lagLimit; waited += lagPause {
		<-s.clock.After(lagPause)
	}
}

// idle says whether nothing waits. The next proposal then starts run again.
func (s *Sequencer) idle() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.running = len(s.waiting) > 0
	return !s.running
}

// take gives what goes as one batch.
func (s *Sequencer) take() []*request {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	taken, changes := 0, 0
	for taken < len(s.waiting) && (taken == 0 || changes+len(s.waiting[taken].proposals) <= batchLimit) {
		changes += len(s.waiting[taken].proposals)
		taken++
	}
	batch := slices.Clone(s.waiting[:taken])
	s.waiting = slices.Delete(s.waiting, 0, taken)
	return batch
}

// serve decides a batch, replicates and appends it.
func (s *Sequencer) serve(batch []*request) {
	changes := s.decide(batch)
	if len(changes) == 0 {
		return
	}
	// The clients of a batch may be gone; the batch is not theirs alone.
	ctx := context.WithoutCancel(batch[0].ctx)
	err := s.replicate(ctx, changes)
	if err == nil {
		err = s.log.Append(changes...)
	}
	if err != nil {
		for _, r := range batch {
			r.entries, r.err = nil, unavailable(err)
		}
	}
}

// decide gives each proposal that fits what the log has its revision, and each
// request its result.
func (s *Sequencer) decide(batch []*request) []Change {
	head, now := s.log.Head(), s.clock.Now()
	decided := map[string]uint64{}
	var changes []Change
	for _, r := range batch {
		r.entries = make([]*Entry, len(r.proposals))
		var changed []string
		for i := range r.proposals {
			p := &r.proposals[i]
			if s.revisionOf(p.Key, decided) != p.Expect {
				changed = append(changed, p.Key)
				continue
			}
			if p.Object == nil && p.Expect == 0 {
				continue
			}
			head = s.revisions.Next(head)
			change := Change{Key: p.Key, Revision: head, Object: p.Object, Time: now}
			decided[p.Key] = 0
			if p.Object != nil {
				stamp(p.Object, head)
				decided[p.Key] = head
				r.entries[i] = &Entry{Key: p.Key, Revision: head, Object: p.Object}
			}
			changes = append(changes, change)
		}
		if len(changed) > 0 {
			r.err = &ChangedError{Keys: changed}
		}
	}
	return changes
}

// revisionOf is a key's revision with what the batch has decided before.
func (s *Sequencer) revisionOf(key string, decided map[string]uint64) uint64 {
	if revision, ok := decided[key]; ok {
		return revision
	}
	if entry := s.log.Get(key); entry != nil {
		return entry.Revision
	}
	return 0
}
