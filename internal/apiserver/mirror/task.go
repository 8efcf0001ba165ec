package mirror

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
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
}

func newTask(name string, step func(ctx context.Context) time.Time) *task {
	return &task{name: name, step: step, wakes: make(chan struct{}, 1)}
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
