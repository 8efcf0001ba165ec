package identity

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// checkInterval is how long one answer, or the lack of one, counts.
const checkInterval = 10 * time.Second

// health remembers how the last question about a token went.
type health struct {
	clock clock.PassiveClock
	// checking lets only one check at a time ask.
	checking sync.Mutex

	mu    sync.Mutex
	asked time.Time
	err   error
}

func newHealth(clk clock.PassiveClock) *health { return &health{clock: clk} }

// record remembers how a question went just now.
func (h *health) record(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.err = h.clock.Now(), err
}

// last gives whether there was a question lately, and how that went.
func (h *health) last() (recent bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.asked.IsZero() && h.clock.Since(h.asked) < checkInterval, h.err
}

// check gives how the last question went, and asks one where that was too long
// ago to tell.
func (h *health) check(ask func() error) error {
	h.checking.Lock()
	defer h.checking.Unlock()
	recent, err := h.last()
	if !recent {
		err = ask()
		h.record(err)
	}
	if err != nil {
		return fmt.Errorf("tokens cannot be checked: %w", err)
	}
	return nil
}
