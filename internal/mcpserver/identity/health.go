package identity

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// checkInterval is how long the result of a check is valid.
const checkInterval = 10 * time.Second

// health stores the result of the last token check.
type health struct {
	clock clock.PassiveClock
	// checking serializes the checks.
	checking sync.Mutex

	mu    sync.Mutex
	asked time.Time
	err   error
}

func newHealth(clk clock.PassiveClock) *health { return &health{clock: clk} }

// record stores a result.
func (h *health) record(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked, h.err = h.clock.Now(), err
}

// last returns the last result. recent reports whether it is still valid.
func (h *health) last() (recent bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.asked.IsZero() && h.clock.Since(h.asked) < checkInterval, h.err
}

// check returns the last result, or calls ask if that is too old.
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
