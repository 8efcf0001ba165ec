package replication

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
)

// term is one time of this replica as the writer.
type term struct {
	number uint64
	ended  <-chan struct{}
	cancel context.CancelFunc
	// over is closed when nothing of it runs any more.
	over chan struct{}
	// onEnd runs f when the term ends.
	onEnd func(f func()) (stop func() bool)

	mu      sync.Mutex
	closed  bool
	writes  int
	drained chan struct{}
}

func newTerm(ctx context.Context, number uint64) (*term, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &term{
		number: number, ended: ctx.Done(), cancel: cancel, over: make(chan struct{}),
		onEnd: func(f func()) func() bool { return context.AfterFunc(ctx, f) },
	}, ctx
}

// enter begins a write, whose context ends with the term too.
func (t *term) enter(ctx context.Context) (within context.Context, leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, unavailable("this replica hands its role as the writer over")
	}
	t.writes++
	within, cancel := context.WithCancel(ctx)
	stop := t.onEnd(cancel)
	return within, func() {
		stop()
		cancel()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.writes--
		if t.writes == 0 && t.drained != nil {
			close(t.drained)
			t.drained = nil
		}
	}, nil
}

// drain lets no write begin any more, and waits for those under way.
func (t *term) drain(patience time.Duration) {
	t.mu.Lock()
	t.closed = true
	if t.writes == 0 {
		t.mu.Unlock()
		return
	}
	drained := make(chan struct{})
	t.drained = drained
	t.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-drained:
	case <-t.ended:
	case <-timer.C:
	}
}

// lead is what the holder of the Lease does. It returns when nothing of it runs any
// more.
func (r *Replica) lead(ctx context.Context) {
	r.leading.Lock()
	defer r.leading.Unlock()
	number, held := r.mandate.holds()
	if ctx.Err() != nil || !held || r.resigning.Load() {
		return
	}
	logger := log.FromContext(ctx)
	number = r.takeOver(ctx, number)
	if ctx.Err() != nil {
		return
	}
	t, within := newTerm(ctx, number)
	defer t.cancel()
	r.hub.begin(number, r.heads())
	r.term.Store(t)
	r.config.Metrics.writing(true)
	logger.Info("Deciding changes from now on", "term", number)
	r.hintAll(within)
	duties := make(chan struct{})
	go func() {
		defer close(duties)
		if r.duties.Run != nil {
			r.duties.Run(within)
		}
		<-within.Done()
	}()
	<-within.Done()
	r.leave(ctx, t, duties)
	logger.Info("Deciding no more changes", "term", number)
}

// leave ends a term.
func (r *Replica) leave(ctx context.Context, t *term, duties <-chan struct{}) {
	t.drain(r.config.timing.drain)
	timer := time.NewTimer(r.config.timing.drain)
	defer timer.Stop()
	select {
	case <-duties:
	case <-timer.C:
		log.FromContext(ctx).Info("Waiting no longer for the writer's duties to end; they can decide nothing any more")
	}
	quiet, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.config.timing.drain)
	defer cancel()
	for resource, revision := range r.hub.end() {
		// What the followers acknowledged gets into the own log before anything of
		// another writer does.
		if err := r.config.Logs[resource].Log.Wait(quiet, revision); err != nil {
			log.FromContext(ctx).Error(err, "Waiting for the last change", "resource", resource, "revision", revision)
		}
	}
	r.term.Store(nil)
	r.hub.clear()
	r.config.Metrics.writing(false)
	close(t.over)
}

// awaitLead returns when lead has.
func (r *Replica) awaitLead() {
	r.leading.Lock()
	defer r.leading.Unlock()
}

// deposed is told that the Lease is no longer held.
func (r *Replica) deposed() {
	r.mandate.revoke()
	r.awaitLead()
}

func (r *Replica) heads() map[string]uint64 {
	heads := map[string]uint64{}
	for resource, config := range r.config.Logs {
		heads[resource] = config.Log.Head()
	}
	return heads
}

// commit decides a write here.
func (r *Replica) commit(ctx context.Context, t *term, resource string, commit objectlog.Commit) (*objectlog.Entry, error) {
	committer, ok := r.duties.Committers[resource]
	if !ok {
		return nil, apierrors.NewMethodNotSupported(schemaOf(resource), "write")
	}
	within, leave, err := t.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	entry, err := committer.Commit(within, commit)
	if err == nil || errors.Is(err, objectlog.ErrChanged) || ctx.Err() != nil {
		return entry, err
	}
	if status := apierrors.APIStatus(nil); within.Err() != nil && !errors.As(err, &status) {
		return nil, interrupted(commit.Expect)
	}
	return entry, err
}
