package callers

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// TTLCache caches the results of one kind of request.
type TTLCache[V any] struct {
	timeout time.Duration
	entries *cache.LRUExpireCache
	flight  singleflight.Group
}

// NewTTLCache returns a cache of at most size results. A request may take up to timeout.
func NewTTLCache[V any](size int, timeout time.Duration, clk clock.PassiveClock) *TTLCache[V] {
	return &TTLCache[V]{timeout: timeout, entries: cache.NewLRUExpireCacheWithClock(size, clk)}
}

// Ask makes a request. It returns the result and how long that is cached; a duration that
// is not positive disables caching for the result. ctx has the values of the first waiting
// caller's context.
type Ask[V any] func(ctx context.Context) (V, time.Duration, error)

// Get returns the cached result for key, or calls ask. Concurrent calls with the same key
// share one request. The error is that of ask, or of ctx if that ends first.
func (c *TTLCache[V]) Get(ctx context.Context, key string, ask Ask[V]) (V, error) {
	var none V
	if answer, ok := c.entries.Get(key); ok {
		return answer.(V), nil
	}
	result := c.flight.DoChan(key, func() (any, error) {
		// Another call may have stored the result since the lookup above.
		if answer, ok := c.entries.Get(key); ok {
			return answer, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		answer, ttl, err := ask(ctx)
		if err != nil {
			return none, err
		}
		if ttl > 0 {
			c.entries.Add(key, answer, ttl)
		}
		return answer, nil
	})
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case r := <-result:
		if r.Err != nil {
			return none, r.Err
		}
		return r.Val.(V), nil
	}
}
