package replication

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
)

// followerQueue is how many batches may wait for one follower before it is dropped.
const followerQueue = 256

// batch is what one call of replicate sends.
type batch struct {
	resource           string
	previous, revision uint64
	// payload is the encoded frame, the same for all followers.
	payload []byte
}

// hub brings changes to the followers that are connected to this writer.
type hub struct {
	timing  timing
	mandate *mandate
	metrics *Metrics

	mu        sync.Mutex
	term      uint64
	open      bool
	followers map[*subscriber]struct{}
	// lost is when a follower went that had everything. It may be because this
	// replica is cut off, and another one takes over.
	lost time.Time
	// sent is the last revision of each log that was given to followers. It gets into
	// the own log right after.
	sent map[string]uint64
	// active counts batches that are under way.
	active sync.WaitGroup
	// decided is the last revision of each log that is or will be in the own log.
	decided map[string]uint64
}

// subscriber is a follower at its writer.
type subscriber struct {
	name  string
	queue chan batch
	// gone is closed when it is dropped.
	gone chan struct{}

	// The hub's lock guards what follows.
	dropped bool
	acked   map[string]uint64
	// live has the logs that are as far as the writer's: changes wait for it there.
	live map[string]bool
	// moved is closed at the next acknowledgement.
	moved chan struct{}
}

func newHub(timing timing, mandate *mandate, metrics *Metrics) *hub {
	return &hub{timing: timing, mandate: mandate, metrics: metrics, followers: map[*subscriber]struct{}{}}
}

// begin opens the hub for a term, in which nothing but what the logs have was sent.
func (h *hub) begin(term uint64, heads map[string]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term, h.open, h.sent, h.decided = term, true, maps.Clone(heads), maps.Clone(heads)
}

// end closes it, and gives up to where the own logs will come when what is under
// way has ended.
func (h *hub) end() (decided map[string]uint64) {
	h.mu.Lock()
	h.open = false
	h.mu.Unlock()
	h.active.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.decided)
}

// clear drops all followers.
func (h *hub) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.followers {
		h.dropLocked(s)
	}
}

// current gives the term, if this replica is the writer.
func (h *hub) current() (term uint64, open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term, h.open
}

// head is the newest revision that this writer has decided, in its log or about to be.
func (h *hub) head(resource string) (revision uint64, open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent[resource], h.open
}

// join takes a follower in whose logs are as far as acked says. It gets every change
// that is decided from now on. The targets are what was decided before.
func (h *hub) join(name string, acked map[string]uint64) (s *subscriber, targets map[string]uint64, err error) {
	s = &subscriber{
		name: name, queue: make(chan batch, followerQueue), gone: make(chan struct{}),
		acked: acked, live: map[string]bool{},
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return nil, nil, unavailable("this replica is not the writer")
	}
	h.followers[s] = struct{}{}
	for resource, sent := range h.sent {
		if acked[resource] >= sent && sent > 0 {
			s.live[resource] = true
		}
	}
	h.metrics.followers(len(h.followers))
	return s, maps.Clone(h.sent), nil
}

// drop lets a follower go. It has to connect again.
func (h *hub) drop(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(s)
}

func (h *hub) dropLocked(s *subscriber) {
	if s.dropped {
		return
	}
	s.dropped = true
	if len(s.live) > 0 {
		h.lost = time.Now()
	}
	close(s.gone)
	s.wakeLocked()
	delete(h.followers, s)
	h.metrics.followers(len(h.followers))
}

// ack notes how far a follower's log is.
func (h *hub) ack(s *subscriber, resource string, revision uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.acked[resource] = max(s.acked[resource], revision)
	if s.acked[resource] >= h.sent[resource] {
		s.live[resource] = true
	}
	s.wakeLocked()
}

func (s *subscriber) wakeLocked() {
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

// replicate brings a batch to all followers and waits until those that are up to
// date have it. One that does not acknowledge in time is dropped. Where this fails
// after the batch was sent, this replica can no longer be the writer: others may
// have what it does not.
func (h *hub) replicate(ctx context.Context, b batch) (sent bool, err error) {
	h.mu.Lock()
	term := h.term
	err = h.mandate.allows(term, b.revision)
	if !h.open {
		err = unavailable("this replica is not the writer")
	}
	if err != nil {
		h.mu.Unlock()
		return false, err
	}
	h.active.Add(1)
	defer h.active.Done()
	waiting := h.sendLocked(b)
	h.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, h.timing.acknowledge)
	defer cancel()
	for _, s := range waiting {
		if !h.awaitAck(ctx, s, b) {
			h.metrics.dropped()
			h.drop(s)
		}
	}
	if err := h.confirm(term, b.revision); err != nil {
		return true, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decided[b.resource] = b.revision
	return true, nil
}

// confirm makes sure that this replica still is the writer. Where a follower was
// lost since the Lease was last renewed, that takes another renewal: a replica that
// is cut off from all others must not tell its clients that something is decided.
func (h *hub) confirm(term, revision uint64) error {
	h.mu.Lock()
	lost := h.lost
	h.mu.Unlock()
	if err := h.mandate.confirm(term, lost); err != nil {
		return err
	}
	return h.mandate.allows(term, revision)
}

// sendLocked queues the batch, and gives the followers to wait for.
func (h *hub) sendLocked(b batch) []*subscriber {
	h.sent[b.resource] = b.revision
	var waiting []*subscriber
	for s := range h.followers {
		select {
		case s.queue <- b:
			if s.live[b.resource] {
				waiting = append(waiting, s)
			}
		default:
			h.metrics.dropped()
			h.dropLocked(s)
		}
	}
	return waiting
}

// awaitAck gives false where time runs out. A follower that is gone is not waited for.
func (h *hub) awaitAck(ctx context.Context, s *subscriber, b batch) bool {
	for {
		h.mu.Lock()
		if s.dropped || s.acked[b.resource] >= b.revision {
			h.mu.Unlock()
			return true
		}
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		moved := s.moved
		h.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

// encodeBatch makes the batch of changes that follow on a head.
func encodeBatch(resource string, term, previous uint64, changes []objectlog.Change) (batch, error) {
	items := make([]item, len(changes))
	for i := range changes {
		var err error
		if items[i], err = encodeChange(changes[i]); err != nil {
			return batch{}, err
		}
	}
	revision := changes[len(changes)-1].Revision
	f := frame{Kind: frameChanges, Term: term, Resource: resource, Previous: previous, Head: revision, Items: items}
	payload, err := f.encode()
	return batch{resource: resource, previous: previous, revision: revision, payload: payload}, err
}

// seconds is how long ago a time was.
func seconds(now, then time.Time) float64 { return max(now.Sub(then), 0).Seconds() }
