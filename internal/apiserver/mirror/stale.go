package mirror

import (
	"context"
	"slices"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// newStaleTask returns a task that sets the condition Synced of every object of a control plane to
// False, once for each outage. The condition becomes True again when the object is read again.
func newStaleTask(p *plane) *task {
	var reported time.Time
	return newTask("stale", func(ctx context.Context) time.Time {
		since, _, ok := p.outage()
		if !ok {
			reported = time.Time{}
			return p.after(idle)
		}
		if reported.Equal(since) {
			return p.after(idle)
		}
		all := true
		for _, f := range p.feeds {
			done, err := f.desync(ctx)
			p.note(ctx, "reporting in conditions that Coder does not respond", err)
			all = all && done && err == nil
		}
		if !all {
			return p.after(soon)
		}
		reported = since
		return p.after(idle)
	})
}

// desync sets the condition Synced of all objects to False. It reports whether it is done.
func (f *feed[Item]) desync(ctx context.Context) (done bool, err error) {
	done = true
	for some := range slices.Chunk(f.Store.Table.Of(f.plane.name), commitsAtOnce) {
		all, err := f.desyncSome(ctx, some)
		if err != nil || ctx.Err() != nil {
			return false, err
		}
		done = done && all
	}
	return done, nil
}

func (f *feed[Item]) desyncSome(ctx context.Context, entries []*records.Entry) (all bool, err error) {
	since, message, ok := f.plane.outage()
	if !ok {
		return true, nil
	}
	all = true
	var proposals []records.Proposal
	for _, entry := range entries {
		object := f.Kind.Unreachable(entry.Object, since, message)
		if object == nil {
			continue
		}
		unlock, ok := f.Store.TryLock(entry.Key)
		if !ok {
			all = false
			continue
		}
		defer unlock()
		proposals = append(proposals, records.Proposal{Key: entry.Key, Expect: entry.Revision, Object: object, Natural: entry.Natural})
	}
	unwritten, err := f.propose(ctx, proposals...)
	for _, reason := range unwritten {
		// A record that is not accepted would be tried again and again.
		all = all && records.IsRefused(reason)
	}
	f.plane.config.Metrics.commits.WithLabelValues(f.kind()).Add(float64(len(proposals) - len(unwritten)))
	return all, err
}
