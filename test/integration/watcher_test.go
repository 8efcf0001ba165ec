package integration

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// watcher watches the workspaces of a namespace, repeatedly from a revision that it has
// seen: the last one, or any earlier one.
type watcher struct {
	name      string
	namespace string
	replicas  replicas
	// fixed is the replica that it always uses. If it is nil, the watcher changes
	// replicas.
	fixed        *replica
	selector     labels.Selector
	observations *observations
	// seen are the revisions from which it may start, in order.
	seen []uint64
}

// run watches until the context is done, and then until it has seen a revision.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		r := w.fixed
		if r == nil {
			r = w.replicas.any()
		}
		up, life := r.alive()
		if !up {
			pause(ctx, 50*time.Millisecond)
			continue
		}
		from := w.seen[len(w.seen)-1]
		if rand.IntN(3) == 0 {
			from = w.seen[rand.IntN(len(w.seen))]
		}
		// Some watches are long, most are short.
		limit := time.Duration(rand.IntN(3000)) * time.Millisecond
		if rand.IntN(4) == 0 {
			limit = 15 * time.Second
		}
		session, cancel := context.WithTimeout(ctx, limit)
		w.watch(session, r, life, from, 0)
		cancel()
	}
}

// catchUp watches from its last revision until it has seen another one.
func (w *watcher) catchUp(ctx context.Context, until uint64) {
	for w.seen[len(w.seen)-1] < until && ctx.Err() == nil {
		r := w.fixed
		if r == nil {
			r = w.replicas.any()
		}
		_, life := r.alive()
		w.watch(ctx, r, life, w.seen[len(w.seen)-1], until)
	}
	if got := w.seen[len(w.seen)-1]; got < until {
		w.observations.fault("%s has seen revision %d, the last is %d", w.name, got, until)
	}
}

// watch records the events of a watch until the context is done, or until a revision is
// seen if it is not 0.
func (w *watcher) watch(ctx context.Context, r *replica, life int, from, until uint64) {
	s := session{watcher: w.name, replica: r.name, selector: w.selector, from: from}
	defer func() { w.observations.add(s) }()
	gone := false
	defer func() {
		if gone {
			w.relist(ctx)
		}
	}()
	stream, err := r.client.Resource(workspacesGVR).Namespace(w.namespace).Watch(ctx, metav1.ListOptions{
		ResourceVersion: strconv.FormatUint(from, 10), AllowWatchBookmarks: true,
		LabelSelector: w.selector.String(), TimeoutSeconds: ptr.To[int64](600),
	})
	if err != nil {
		gone = w.failed(ctx, r, life, from, err)
		pause(ctx, 50*time.Millisecond)
		return
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if event.Type == watch.Error || !ok {
			gone = w.failed(ctx, r, life, from, apierrors.FromObject(event.Object))
			return
		}
		revision := revisionOf(object.GetResourceVersion())
		if event.Type != watch.Bookmark {
			s.told = append(s.told, happeningOf(event.Type, object))
		}
		if revision > w.seen[len(w.seen)-1] {
			w.seen = append(w.seen, revision)
		}
		if until > 0 && revision >= until {
			return
		}
	}
	if ctx.Err() == nil && sameLife(r, life) {
		w.observations.cutOff(s)
	}
}

// failed records an error that no running replica may return. It reports whether the
// watcher must list again.
func (w *watcher) failed(ctx context.Context, r *replica, life int, from uint64, err error) (gone bool) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		if sameLife(r, life) && !r.forgot(from) {
			w.observations.fault("%s: %s has lost the history since revision %d: %v", w.name, r.name, from, err)
		}
		return true
	}
	if ctx.Err() == nil && sameLife(r, life) {
		w.observations.fault("%s: a watch at %s, which runs, failed: %v", w.name, r.name, err)
	}
	return false
}

// relist continues from a new list after 410, as an informer does. The list must not be
// older than what the watcher has seen.
func (w *watcher) relist(ctx context.Context) {
	r := w.replicas.any()
	list, err := r.client.Resource(workspacesGVR).Namespace(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		pause(ctx, 50*time.Millisecond)
		return
	}
	revision := revisionOf(list.GetResourceVersion())
	if last := w.seen[len(w.seen)-1]; revision < last {
		w.observations.fault("%s: a list at %s has revision %d, a watch showed %d before", w.name, r.name, revision, last)
		return
	}
	w.seen = []uint64{revision}
}

// sameLife reports whether a replica has been running since. A connection may break
// before the test has recorded that it killed the process.
func sameLife(r *replica, life int) bool {
	up, now := r.alive()
	return up && now == life
}

// pause waits a while, or until the context is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
