package replication

import (
	"context"
	"sync"
)

// Fresh gives the newest revision that the writer has decided. It fails soon where
// the writer cannot be asked.
func (r *Replica) Fresh(resource string) func(ctx context.Context) (uint64, error) {
	return func(ctx context.Context) (uint64, error) {
		if head, open := r.decided(resource); open {
			return head, nil
		}
		ctx, cancel := context.WithTimeout(ctx, r.config.timing.fresh)
		defer cancel()
		heads, err := r.fresh.get(ctx)
		return heads[resource], err
	}
}

// decided is the head as the writer knows it, if this replica is the writer for sure.
func (r *Replica) decided(resource string) (uint64, bool) {
	head, open := r.hub.head(resource)
	if !open {
		return 0, false
	}
	term, _ := r.hub.current()
	return head, r.mandate.allows(term, 0) == nil
}

// fetchHeads asks the writer.
func (r *Replica) fetchHeads() (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.config.timing.fresh)
	defer cancel()
	current, _ := r.lock.seen()
	if current.identity == "" || current.own {
		return nil, unavailable("no replica is the writer yet")
	}
	var heads map[string]uint64
	if err := r.dialer.call(ctx, current.target(), pathHeads, struct{}{}, &heads); err != nil {
		return nil, err
	}
	return heads, nil
}

// freshness lets many share one question. Who asks while one is under way shares the
// next: the answer to the present one may be older than what it has seen.
type freshness struct {
	fetch func() (map[string]uint64, error)

	mu      sync.Mutex
	next    *question
	running bool
}

type question struct {
	done  chan struct{}
	heads map[string]uint64
	err   error
}

func (f *freshness) get(ctx context.Context) (map[string]uint64, error) {
	f.mu.Lock()
	if f.next == nil {
		f.next = &question{done: make(chan struct{})}
	}
	q := f.next
	if !f.running {
		f.running = true
		go f.run()
	}
	f.mu.Unlock()
	select {
	case <-q.done:
		return q.heads, q.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run asks until nobody waits.
func (f *freshness) run() {
	for {
		f.mu.Lock()
		q := f.next
		f.next = nil
		if q == nil {
			f.running = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		q.heads, q.err = f.fetch()
		close(q.done)
	}
}
