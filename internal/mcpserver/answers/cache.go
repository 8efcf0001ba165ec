package answers

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// Cache has the answers to one kind of question.
type Cache[V any] struct {
	timeout time.Duration
	entries *cache.LRUExpireCache
	flight  singleflight.Group
}

// NewCache makes a cache of at most size answers. A question may take as long as
// timeout.
func NewCache[V any](size int, timeout time.Duration, clk clock.PassiveClock) *Cache[V] {
	return &Cache[V]{timeout: timeout, entries: cache.NewLRUExpireCacheWithClock(size, clk)}
}

// Ask asks a question. It gives the answer and how long that counts; not above
// zero means for this once. Its context has the values of the first one who
// wants to know.
type Ask[V any] func(ctx context.Context) (V, time.Duration, error)

// Get gives the answer that is remembered under key, or asks. The error is that of
// ask, or of ctx where that ends before there is an answer.
func (c *Cache[V]) Get(ctx context.Context, key string, ask Ask[V]) (V, error) {
	var none V
	if answer, ok := c.entries.Get(key); ok {
		return answer.(V), nil
	}
	result := c.flight.DoChan(key, func() (any, error) {
		// Another may have had the answer between the look above and this one.
		if answer, ok := c.entries.Get(key); ok {
			return answer, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		answer, counts, err := ask(ctx)
		if err != nil {
			return none, err
		}
		if counts > 0 {
			c.entries.Add(key, answer, counts)
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
