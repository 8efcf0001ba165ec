package callers

import (
	"cmp"
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Probe caches the result of a check whether a server responds.
type Probe struct {
	goodTTL, badTTL time.Duration
	results         *TTLCache[probed]
}

// probed is the result of a check; err is nil if the server responds.
type probed struct{ err error }

// NewProbe returns a Probe that caches a success for goodTTL and an error for badTTL. A check
// may take up to timeout.
func NewProbe(clk clock.PassiveClock, timeout, goodTTL, badTTL time.Duration) *Probe {
	return &Probe{goodTTL: goodTTL, badTTL: badTTL, results: NewTTLCache[probed](1, timeout, clk)}
}

// Record stores a result.
func (p *Probe) Record(err error) { p.results.entries.Add("", probed{err}, p.ttl(err)) }

// Check returns the last result, or that of ask if the last one is too old. Concurrent calls
// share one check.
func (p *Probe) Check(ctx context.Context, ask func(context.Context) error) error {
	result, err := p.results.Get(ctx, "", func(ctx context.Context) (probed, time.Duration, error) {
		err := ask(ctx)
		return probed{err}, p.ttl(err), nil
	})
	return cmp.Or(err, result.err)
}

func (p *Probe) ttl(err error) time.Duration {
	if err != nil {
		return p.badTTL
	}
	return p.goodTTL
}
