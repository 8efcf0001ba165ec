package callers

import (
	"cmp"
	"context"
	"sync"
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

// Quota counts running operations, by user, and limits them.
type Quota struct {
	perUser, most int

	mu sync.Mutex
	// byUser contains only users with running operations.
	byUser map[string]int
	total  int
}

// NewQuota returns a Quota of perUser operations for each user and most operations for all
// users together; 0 means no limit.
func NewQuota(perUser, most int) *Quota {
	return &Quota{perUser: perUser, most: most, byUser: map[string]int{}}
}

// PerUser returns the limit for one user; 0 means no limit.
func (q *Quota) PerUser() int { return q.perUser }

// Begin counts an operation of the user until end is called; only the first call of end has
// an effect. ok is false if a limit has been reached.
func (q *Quota) Begin(user string) (end func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.perUser > 0 && q.byUser[user] >= q.perUser || q.most > 0 && q.total >= q.most {
		return nil, false
	}
	return q.add(user), true
}

// Add is Begin without the limits.
func (q *Quota) Add(user string) (end func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(user)
}

func (q *Quota) add(user string) (end func()) {
	q.byUser[user]++
	q.total++
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.total--
		if q.byUser[user]--; q.byUser[user] == 0 {
			delete(q.byUser, user)
		}
	})
}

// Total returns the number of running operations of all users.
func (q *Quota) Total() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}
