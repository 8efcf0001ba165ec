package replication

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	annotationTerm    = "aggregation.coder.com/term"
	annotationCeiling = "aggregation.coder.com/revision-ceiling"

	// retryAfterSeconds is what a client is told while there is no writer.
	retryAfterSeconds = 1
)

// mandate is what the Lease allows this replica to decide at this moment.
type mandate struct {
	numbers *revisions
	reserve time.Duration
	// validity is how long after a renewal was begun nobody else can take over.
	validity time.Duration
	// heads gives the greatest revision of the own logs.
	heads func() uint64

	mu   sync.Mutex
	held bool
	// term numbers the time as the writer. It rises with every writer.
	term    uint64
	ceiling uint64
	until   time.Time
	// begun is when the last renewal that succeeded was begun.
	begun time.Time
	// moved is closed when any of this changes.
	moved chan struct{}
}

// claim is what is about to be written into the Lease.
type claim struct {
	begun         time.Time
	term, ceiling uint64
	// release gives the Lease up.
	release bool
}

// claim works out the next entry of the Lease, whose annotations are given. A claim
// of what is not held yet begins above everything that was ever reserved.
func (m *mandate) claim(annotations map[string]string, release bool) claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	noted := parseRevision(annotations[annotationCeiling])
	now := micros(m.numbers.clock.Now())
	c := claim{begun: time.Now(), term: m.term, release: release}
	switch {
	case release && !m.held:
		// It was acquired, and the answer did not arrive: what another replica reserved
		// before may have been used.
		c.ceiling = max(noted, m.numbers.reached(), m.heads(), m.term)
	case release:
		// From here on nothing is decided, so the reserve that was not used is given back.
		m.endLocked()
		c.ceiling = max(m.numbers.reached(), m.heads(), m.term)
	case m.held:
		c.ceiling = max(noted, max(now, m.numbers.reached())+uint64(m.reserve.Microseconds()))
	default:
		floor := max(now, noted, parseRevision(annotations[annotationTerm])+1, m.heads(), m.term+1, m.numbers.reached())
		c.term, c.ceiling = floor, floor+uint64(m.reserve.Microseconds())
	}
	return c
}

// granted tells that the Lease says so now.
func (m *mandate) granted(c claim) (acquired bool) {
	if c.release {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	acquired = !m.held
	m.held, m.ceiling = true, max(m.ceiling, c.ceiling)
	m.begun, m.until = c.begun, c.begun.Add(m.validity)
	m.wakeLocked()
	if acquired {
		m.term, m.ceiling = c.term, c.ceiling
		m.numbers.atLeast(c.term)
	}
	m.numbers.reserve(m.ceiling)
	return acquired
}

// raise makes the term greater than one that another replica has promised. The
// Lease says so with its next renewal.
func (m *mandate) raise(promised uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = max(m.term, promised+1)
	m.numbers.atLeast(m.term)
	return m.term
}

// revoke ends it.
func (m *mandate) revoke() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endLocked()
}

func (m *mandate) endLocked() {
	m.held, m.until = false, time.Time{}
	m.wakeLocked()
}

func (m *mandate) wakeLocked() {
	if m.moved != nil {
		close(m.moved)
		m.moved = nil
	}
}

// holds gives the term, if the Lease is held.
func (m *mandate) holds() (term uint64, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term, m.held
}

// allows says whether a revision of a term may be decided now.
func (m *mandate) allows(term, revision uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !m.held || m.term != term:
		return unavailable("this replica is no longer the writer")
	case !time.Now().Before(m.until):
		return unavailable("this replica could not renew its Lease as the writer")
	case revision > m.ceiling:
		return unavailable(fmt.Sprintf("the revision %d lies beyond the reserve up to %d", revision, m.ceiling))
	}
	return nil
}

// confirm waits for a renewal that was begun after a moment. It fails when the
// mandate runs out before.
func (m *mandate) confirm(term uint64, after time.Time) error {
	for {
		m.mu.Lock()
		begun, until := m.begun, m.until
		if m.moved == nil {
			m.moved = make(chan struct{})
		}
		moved := m.moved
		m.mu.Unlock()
		if err := m.allows(term, 0); err != nil || begun.After(after) {
			return err
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-moved:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func parseRevision(text string) uint64 {
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// unavailable is what a client gets while nobody can decide.
func unavailable(reason string) error {
	message := fmt.Sprintf("the change cannot be decided now: %s; try again", reason)
	err := apierrors.NewGenericServerResponse(503, "", schema.GroupResource{}, "", message, retryAfterSeconds, true)
	err.ErrStatus.Message = message
	err.ErrStatus.Reason = metav1.StatusReasonServiceUnavailable
	return err
}
