package mirror

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// rounds reads all known workspaces again in batches, those that changed longest ago first. It
// finds changes that Coder reports in no other way.
type rounds struct {
	plane *plane
	task  *task
	// left holds the ids that this round has not reached yet. pause is the time between two batches
	// of the round.
	left  []uuid.UUID
	pause time.Duration
	next  time.Time
	// hurried reports that a round is wanted soon, because a change was missed.
	hurried atomic.Bool
}

func newRounds(p *plane) *rounds {
	r := &rounds{plane: p}
	r.task = newTask("rounds", r.step)
	return r
}

// hurry starts a faster round.
func (r *rounds) hurry() {
	r.hurried.Store(true)
	r.task.wake()
}

func (r *rounds) step(ctx context.Context) time.Time {
	p := r.plane
	connection, live := p.live()
	if !live {
		return p.after(idle)
	}
	now := p.config.Clock.Now()
	hurried := r.hurried.Swap(false)
	if !hurried && now.Before(r.next) {
		return r.next
	}
	if hurried || len(r.left) == 0 {
		r.begin(hurried)
	}
	f := p.workspaces
	n := min(f.source.batch, len(r.left))
	batch := r.left[:n]
	r.left = r.left[n:]
	r.next = p.after(r.pause)
	if n > 0 {
		p.note(ctx, "reading known workspaces again", f.reread(ctx, connection, batch))
	}
	return r.next
}

// begin starts a round.
func (r *rounds) begin(hurried bool) {
	f := r.plane.workspaces
	timing := &r.plane.config.Timing
	r.left = nil
	for _, entry := range f.Store.Table.Of(r.plane.name) {
		r.left = append(r.left, idOf(entry.Object))
	}
	r.left = slices.Clip(r.left)
	batches := max(1, (len(r.left)+f.source.batch-1)/f.source.batch)
	r.pause = max(timing.Batch, timing.Round/time.Duration(batches))
	if hurried {
		r.pause = timing.Batch / 3
	}
}

// reread reads objects again that were not marked for a read.
func (f *feed[Item]) reread(ctx context.Context, connection connections.Connection, ids []uuid.UUID) error {
	return f.readSome(ctx, connection, ids, false)
}
