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

// watcher converts events of records to events of objects, and updates the Table. A heartbeat becomes
// a bookmark.
type watcher struct {
	store  *Store
	query  Query
	ctx    context.Context //nolint:containedctx // It is that of the watch, which ends with it.
	cancel context.CancelFunc
	events chan watch.Event
	stream Stream
	// bookmarks is true if bookmarks are sent.
	bookmarks bool
	// last is the newest delivered revision, from which the watch can be resumed.
	last uint64
	// pause is the delay before the next attempt to open the watch again. It is zero after an event.
	pause     time.Duration
	sometimes rate.Sometimes
}

// Watch implements storage.Interface. The cacher, which serves all watches, calls it with the revision
// of its list. It selects the events itself, so no selector is applied here.
func (s *Store) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	prefix, err := storage.PrepareKey(s.config.Prefix, key, options.Recursive)
	if err != nil {
		return nil, err
	}
	from, err := s.versioner.ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	w := &watcher{
		store: s, query: s.query(prefix, options), events: make(chan watch.Event, eventBuffer),
		bookmarks: options.ProgressNotify, last: from,
	}
	w.sometimes.Interval = time.Minute
	w.ctx, w.cancel = context.WithCancel(ctx)
	stream, err := s.config.Cluster.Watch(w.ctx, w.query)
	var status *apierrors.StatusError
	if err != nil && !errors.As(err, &status) && ctx.Err() == nil {
		w.cancel()
		return nil, unavailable(ctx, "watching "+prefix, err)
	}
	w.stream = stream
	go w.run(err)
	utilflowcontrol.WatchInitialized(ctx)
	return w, nil
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
	w.logInterruption(cause)
	w.stream.Close()
	w.query.ResourceVersion = formatRevision(w.last)
	for w.wait() {
		stream, err := w.store.config.Cluster.Watch(w.ctx, w.query)
		if err == nil || storage.IsTooLargeResourceVersion(err) {
			// etcd may have been restored from a backup during the interruption.
			w.store.heartbeat.verify(w.ctx)
		}
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
	revision, table := event.Record.Revision, w.store.Table
	w.last = max(w.last, revision)
	w.store.heartbeat.saw(revision)
	if h == nil {
		defer w.store.heartbeat.shown(&event.Record)
		table.show(revision)
		return w.bookmark(revision)
	}
	var object Object
	if h.entry != nil {
		object = h.entry.Object
	}
	if event.Type == watch.Deleted {
		table.lose(h.key, revision)
	} else {
		table.see(h)
	}
	table.show(revision)
	switch {
	case object == nil, h.damaged && event.Type != watch.Deleted:
		// A record without an object is not visible to clients.
		return w.bookmark(revision)
	case h.damaged:
		object = object.DeepCopyObject().(Object) //nolint:forcetypeassert // It is a copy of one.
		if err := w.store.versioner.UpdateObject(object, revision); err != nil {
			return false, err
		}
	}
	return w.send(event.Type, object), nil
}

func (w *watcher) bookmark(revision uint64) (bool, error) {
	if !w.bookmarks {
		return true, nil
	}
	object := w.store.config.NewObject()
	if err := w.store.versioner.UpdateObject(object, revision); err != nil {
		return false, err
	}
	return w.send(watch.Bookmark, object), nil
}
