package mirror

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// idle is how long a task without anything to do sleeps. It is woken before.
const idle = time.Minute

// task is one thing that is done again and again for a control plane.
type task struct {
	name string
	// step does what is due, and says when it is due again.
	step func(ctx context.Context) time.Time

	mu  sync.Mutex
	due time.Time
	// stirred says that wake was called since the last step began.
	stirred bool
	wakes   chan struct{}
}

func newTask(name string, step func(ctx context.Context) time.Time) *task {
	return &task{name: name, step: step, wakes: make(chan struct{}, 1)}
}

// wake makes it due at once. It never blocks.
func (t *task) wake() {
	t.mu.Lock()
	t.stirred = true
	t.mu.Unlock()
	select {
	case t.wakes <- struct{}{}:
	default:
	}
}

// dueAt is when the next step is due.
func (t *task) dueAt() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stirred {
		return time.Time{}
	}
	return t.due
}

// once does one step.
func (t *task) once(ctx context.Context) {
	t.mu.Lock()
	t.stirred = false
	t.mu.Unlock()
	due := t.step(ctx)
	t.mu.Lock()
	t.due = due
	t.mu.Unlock()
}

// run does steps until the context ends.
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
