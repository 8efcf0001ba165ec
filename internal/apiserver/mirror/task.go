package mirror

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// idle is how long a task without work sleeps, unless it is woken earlier.
const idle = time.Minute

// task is periodic work for one control plane.
type task struct {
	name string
	// step does the work that is due. It returns the time of the next step.
	step func(ctx context.Context) time.Time

	mu  sync.Mutex
	due time.Time
	// stirred is true if wake was called since the last step began.
	stirred bool
	wakes   chan struct{}
	// next and early are used by newLiveTask only. next is the time of the next work, and early is
	// true if soon was called.
	next  time.Time
	early atomic.Bool
}

func newTask(name string, step func(ctx context.Context) time.Time) *task {
	return &task{name: name, step: step, wakes: make(chan struct{}, 1)}
}

// newLiveTask returns a task that works while the control plane is live: first at the time first, then
// at the times that work returns. early reports whether the work was requested with soon.
func newLiveTask(
	p *plane, name string, first time.Time, work func(ctx context.Context, connection connections.Connection, early bool) (next time.Time),
) *task {
	t := newTask(name, nil)
	t.next = first
	t.step = func(ctx context.Context) time.Time {
		connection, live := p.live()
		if !live {
			return p.after(idle)
		}
		if early := t.early.Swap(false); early || !p.config.Clock.Now().Before(t.next) {
			t.next = work(ctx, connection, early)
		}
		return t.next
	}
	return t
}

// soon requests the work of a task of newLiveTask at once.
func (t *task) soon() {
	t.early.Store(true)
	t.wake()
}

// wake makes the next step due at once. It never blocks.
func (t *task) wake() {
	t.mu.Lock()
	t.stirred = true
	t.mu.Unlock()
	select {
	case t.wakes <- struct{}{}:
	default:
	}
}

// dueAt returns the time of the next step.
func (t *task) dueAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stirred {
		return time.Time{}
	}
	return t.due
}

// once runs one step.
func (t *task) once(ctx context.Context) {
	t.mu.Lock()
	t.stirred = false
	t.mu.Unlock()
	due := t.step(ctx)
	t.mu.Lock()
	t.due = due
	t.mu.Unlock()
}

// run runs steps until the context ends.
func (t *task) run(ctx context.Context, c clock.WithTicker) {
	for ctx.Err() == nil {
		if delay := t.dueAt().Sub(c.Now()); delay > 0 {
			timer := c.NewTimer(delay)
			select {
			case <-ctx.Done():
			case <-t.wakes:
			case <-timer.C():
			}
			timer.Stop()
			continue
		}
		t.once(ctx)
	}
}

// rounds reads all known workspaces again in batches, those that changed longest ago first. It
// finds changes that Coder reports in no other way.
type rounds struct {
	plane *plane
	task  *task
	// left holds the ids that this round has not reached yet. pause is the time between two batches
	// of the round.
	left  []uuid.UUID
	pause time.Duration
}

// step reads the next batch. hurried starts a faster round, because a change was missed.
func (r *rounds) step(ctx context.Context, connection connections.Connection, hurried bool) time.Time {
	p := r.plane
	f := p.workspaces
	if hurried || len(r.left) == 0 {
		timing := &p.config.Timing
		r.left = nil
		for _, entry := range f.Store.Table.Of(p.name) {
			r.left = append(r.left, idOf(entry.Object))
		}
		r.left = slices.Clip(r.left)
		batches := max(1, (len(r.left)+f.source.batch-1)/f.source.batch)
		r.pause = max(timing.Batch, timing.Round/time.Duration(batches))
		if hurried {
			r.pause = timing.Batch / 3
		}
	}
	n := min(f.source.batch, len(r.left))
	batch := r.left[:n]
	r.left = r.left[n:]
	next := p.after(r.pause)
	if n > 0 {
		p.note(ctx, "reading known workspaces again", f.read(ctx, connection, batch, false))
	}
	return next
}
