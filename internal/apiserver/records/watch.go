package records

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/klog/v2"
)

const (
	// reopenFirst and reopenMost are the first and the longest delay before a watch that
	// kube-apiserver ended is opened again.
	reopenFirst, reopenMost = 50 * time.Millisecond, 500 * time.Millisecond
	// eventBuffer is the number of events that are buffered for a client of a watch.
	eventBuffer = 100
)

// watcher converts events of records to events of objects. A heartbeat becomes a bookmark.
type watcher struct {
	store   *Store
	query   Query
	options storage.ListOptions
	see     *sight
	ctx     context.Context //nolint:containedctx // It is that of the watch, which ends with it.
	cancel  context.CancelFunc
	events  chan watch.Event
	stream  Stream
	// selected holds the objects that match the selector. It is nil without a selector, as in the
	// cacher's watch.
	selected map[string]Object
	// begun is true after the initial events. From then on the watch can be resumed from last, the
	// newest delivered revision.
	begun bool
	last  uint64
	// pause is the delay before the next attempt to open the watch again. It is zero after an event.
	pause     time.Duration
	sometimes rate.Sometimes
}

// Watch implements storage.Interface.
func (s *Store) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	return s.watch(ctx, key, options, nil)
}

func (s *Store) watch(ctx context.Context, key string, options storage.ListOptions, see *sight) (watch.Interface, error) {
	prefix, err := storage.PrepareKey(s.config.Prefix, key, options.Recursive)
	if err != nil {
		return nil, err
	}
	from, err := s.versioner.ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watcher{store: s, query: s.query(prefix, options), options: options, see: see, events: make(chan watch.Event, eventBuffer)}
	w.sometimes.Interval = time.Minute
	if !options.Predicate.Empty() {
		w.selected = map[string]Object{}
	}
	w.query.ResourceVersionMatch, w.query.Continue = "", ""
	w.ctx, w.cancel = context.WithCancel(ctx)
	if initial := options.SendInitialEvents; from != 0 && (initial == nil || !*initial) {
		w.begun, w.last = true, from
	}
	stream, err := s.config.Cluster.Watch(w.ctx, w.query)
	if err != nil && !isStatus(err) && ctx.Err() == nil {
		w.cancel()
		return nil, unavailable(ctx, "watching "+prefix, err)
	}
	w.stream = stream
	go w.run(err)
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
}

func isStatus(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status)
}

// Stop implements watch.Interface.
func (w *watcher) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *watcher) ResultChan() <-chan watch.Event { return w.events }

func (w *watcher) send(kind watch.EventType, object runtime.Object) bool {
	select {
	case w.events <- watch.Event{Type: kind, Object: object}:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// ended reports whether the error means that the watch ended normally.
func (w *watcher) ended(err error) bool {
	return w.ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// fail sends an error event, unless the watch ended normally.
func (w *watcher) fail(err error) {
	if w.ended(err) {
		return
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	w.send(watch.Error, &status.ErrStatus)
}

func (w *watcher) run(err error) {
	defer close(w.events)
	defer w.cancel()
	if err != nil {
		w.fail(err)
		return
	}
	defer func() { w.stream.Close() }()
	for {
		event, h, err := w.next()
		if err != nil {
			if isGone(err) || !w.reopen(err) {
				w.fail(err)
				return
			}
			continue
		}
		w.pause = 0
		on, err := w.handle(&event, h)
		if err != nil {
			w.fail(err)
		}
		if err != nil || !on {
			return
		}
	}
}

func isGone(err error) bool {
	return apierrors.IsGone(err) || apierrors.IsResourceExpired(err)
}

// next waits for an event. It also returns the state of its record, or nil for a bookmark and a
// heartbeat. After an error the event must be received again.
func (w *watcher) next() (event Event, h *held, err error) {
	event, err = w.stream.Next()
	if err != nil || event.Type == watch.Bookmark || isHeartbeat(&event.Record) {
		return event, nil, err
	}
	h, err = w.store.holdShown(w.ctx, &event.Record)
	return event, h, err
}

// reopen resumes the watch at its last revision, however long kube-apiserver is unavailable. The
// cacher itself would wait up to half a minute between two attempts. It reports whether the watch
// continues.
func (w *watcher) reopen(cause error) bool {
	if !w.begun {
		return false
	}
	w.logInterruption(cause)
	w.stream.Close()
	w.query.ResourceVersion, w.query.SendInitialEvents = formatRevision(w.last), nil
	for w.wait() {
		stream, err := w.store.config.Cluster.Watch(w.ctx, w.query)
		if err == nil {
			w.stream = stream
			return true
		}
		if isGone(err) {
			return false
		}
		w.logInterruption(err)
	}
	return false
}

// wait waits for the pause and increases it. It reports whether the watch was not stopped.
func (w *watcher) wait() bool {
	timer := time.NewTimer(w.pause)
	defer timer.Stop()
	w.pause = min(max(2*w.pause, reopenFirst), reopenMost)
	select {
	case <-timer.C:
	case <-w.ctx.Done():
	}
	return w.ctx.Err() == nil
}

// logInterruption logs why the watch was interrupted, at most once a minute.
func (w *watcher) logInterruption(err error) {
	if w.ended(err) {
		return
	}
	w.sometimes.Do(func() {
		klog.FromContext(w.ctx).Info("The watch of the records was interrupted; trying again", "kind", w.store.Kind(), "error", err.Error())
	})
}

// handle processes an event, and reports whether the watch continues. h is nil for a bookmark and a
// heartbeat.
func (w *watcher) handle(event *Event, h *held) (bool, error) {
	record := &event.Record
	if event.Type == watch.Bookmark {
		return w.bookmark(record.Revision, event.InitialEventsEnd)
	}
	if h == nil {
		if w.see != nil {
			defer w.store.heartbeat.shown(record)
		}
		// Among the initial events, records with lower revisions may follow it.
		if !w.begun {
			return true, nil
		}
		return w.bookmark(record.Revision, false)
	}
	if w.begun {
		w.last = max(w.last, record.Revision)
	}
	var object Object
	if h.entry != nil {
		object = h.entry.Object
	}
	w.see.event(event.Type, h)
	if h.damaged {
		if event.Type != watch.Deleted {
			return w.bookmark(h.revision, false)
		}
		if object != nil {
			object = object.DeepCopyObject().(Object) //nolint:forcetypeassert // It is a copy of one.
			if err := w.store.versioner.UpdateObject(object, h.revision); err != nil {
				return false, err
			}
		}
	}
	return w.show(event.Type, h.key, h.revision, object)
}

// show sends an event if the object matches the selector. A record without an object is not visible
// to clients.
func (w *watcher) show(kind watch.EventType, key string, revision uint64, object Object) (bool, error) {
	if w.selected == nil {
		if object == nil {
			return w.bookmark(revision, false)
		}
		return w.send(kind, object), nil
	}
	is := false
	if object != nil && kind != watch.Deleted {
		var err error
		if is, err = w.options.Predicate.Matches(object); err != nil {
			return false, err
		}
	}
	was, known := w.selected[key]
	switch {
	case is && known:
		w.selected[key] = object
		return w.send(watch.Modified, object), nil
	case is:
		w.selected[key] = object
		return w.send(watch.Added, object), nil
	case known:
		delete(w.selected, key)
		old := was.DeepCopyObject()
		if err := w.store.versioner.UpdateObject(old, revision); err != nil {
			return false, err
		}
		return w.send(watch.Deleted, old), nil
	}
	return true, nil
}

func (w *watcher) bookmark(revision uint64, end bool) (bool, error) {
	if end {
		w.begun = true
	}
	if w.begun {
		w.last = max(w.last, revision)
		w.see.progress(revision)
	}
	if !w.options.ProgressNotify && !end || end && !w.options.Predicate.AllowWatchBookmarks {
		return true, nil
	}
	object := w.store.config.NewObject()
	if err := w.store.versioner.UpdateObject(object, revision); err != nil {
		return false, err
	}
	if end {
		if err := storage.AnnotateInitialEventsEndBookmark(object); err != nil {
			return false, err
		}
	}
	return w.send(watch.Bookmark, object), nil
}
