package objectlog

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"
)

const (
	// burst is how many events a watch sends at once: the cacher has room for ten for
	// each of its own watches, and ends those that have none left.
	burst = 10
	// breath is what it leaves them to catch up. A single event never waits.
	breath = time.Millisecond
)

// pacer keeps bursts from overrunning the watches of the cacher's clients. Each
// replica paces for itself, so the writer does not wait for it.
type pacer struct {
	clock clock.Clock
	since time.Time
	sent  int
}

// wait is called before each event. It is false when the context has ended.
func (p *pacer) wait(ctx context.Context) bool {
	now := p.clock.Now()
	left := breath - now.Sub(p.since)
	switch {
	case left <= 0:
		p.since, p.sent = now, 1
		return true
	case p.sent < burst:
		p.sent++
		return true
	}
	timer := p.clock.NewTimer(left)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		p.since, p.sent = p.clock.Now(), 1
		return true
	}
}

// timed is an object with the time at which it left the log, for the cacher's
// metrics and for how long it keeps the event. It is the present one, even for
// history: the clients that want it come back now.
type timed struct {
	runtime.Object
	at time.Time
}

var _ storage.WatchEventWithRecordTime = (*timed)(nil)

func (t *timed) RecordTime() time.Time  { return t.at }
func (t *timed) Unwrap() runtime.Object { return t.Object }

func (t *timed) DeepCopyObject() runtime.Object {
	return &timed{Object: t.Object.DeepCopyObject(), at: t.at}
}

// GetObjectMeta is what the reflector reads.
func (t *timed) GetObjectMeta() metav1.Object {
	accessor, err := meta.Accessor(t.Object)
	if err != nil {
		return &metav1.ObjectMeta{}
	}
	return accessor
}

// paced sends an event when its turn has come.
func (w *watcher) paced(event watch.Event) bool {
	if !w.pacer.wait(w.ctx) {
		return false
	}
	if w.options.RecordTimestamps {
		event.Object = &timed{Object: event.Object, at: w.store.config.Clock.Now()}
	}
	return w.send(event)
}

// bookmark tells how far the watch is.
func (w *watcher) bookmark(endOfInitial bool) bool {
	object := w.store.config.NewObject()
	if err := w.store.versioner.UpdateObject(object, w.cursor.Position()); err != nil {
		return w.fail(err)
	}
	if endOfInitial {
		if err := storage.AnnotateInitialEventsEndBookmark(object); err != nil {
			return w.fail(err)
		}
	}
	return w.send(watch.Event{Type: watch.Bookmark, Object: object})
}

func (w *watcher) send(event watch.Event) bool {
	select {
	case w.events <- event:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// fail sends an error as the last event. It gives false, as send does where the
// watch is at its end.
func (w *watcher) fail(err error) bool {
	result := metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Reason:  metav1.StatusReasonInternalError,
		Message: err.Error(),
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		result = status.Status()
	}
	w.send(watch.Event{Type: watch.Error, Object: &result})
	return false
}
