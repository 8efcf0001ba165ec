package toolset

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// DefaultTimeout is the timeout of a wait if the call does not set one.
	DefaultTimeout = 2 * time.Minute
	// MaxTimeout is the longest timeout of a wait.
	MaxTimeout = 10 * time.Minute
	// pollInterval is the interval of reads if the object cannot be watched.
	pollInterval = 2 * time.Second
	// reminderInterval is the interval after which an unchanged message is sent again. Many
	// clients abort a call that sends nothing for a minute.
	reminderInterval = 15 * time.Second
)

// UnfinishedError reports that a call timed out while it waited. Its text is sent to the
// client unchanged.
type UnfinishedError string

func (e UnfinishedError) Error() string { return string(e) }

// Until watches obj with the caller's permissions until done returns true, and keeps obj
// current. It sends each new message as a progress notification. After timeout (default 2
// minutes, maximum 10 minutes) it returns an UnfinishedError with the last message. gone
// reports that the object was deleted. A CallError reports that the object cannot be read.
func (c *Call) Until(ctx context.Context, obj client.Object, timeout time.Duration, done func() (ok bool, message string)) (gone bool, err error) {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	timeout = min(timeout, MaxTimeout)
	gvk, err := apiutil.GVKForObject(obj, c.Kube.Scheme())
	if err != nil {
		return false, fmt.Errorf("bug: waiting for an object of an unknown kind: %w", err)
	}
	w := &waiting{Call: c, obj: obj, done: done, gvk: gvk}
	if obj.GetResourceVersion() == "" {
		if gone, err := w.read(ctx); gone || err != nil {
			return gone, err
		}
	}
	return w.wait(ctx, timeout)
}

type waiting struct {
	*Call
	obj  client.Object
	done func() (ok bool, message string)
	gvk  schema.GroupVersionKind

	// message is the latest message. sent and sentAt are the last one that was sent, and its time.
	message, sent string
	sentAt        time.Time
}

func (w *waiting) wait(ctx context.Context, timeout time.Duration) (gone bool, err error) {
	if w.finished(ctx) {
		return false, nil
	}
	end, tick := w.clock().NewTimer(timeout), w.clock().NewTicker(pollInterval)
	defer end.Stop()
	defer tick.Stop()
	events, stop := w.watch(ctx)
	defer func() { stop() }()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-end.C():
			// A watch can stall without an error.
			if gone, err = w.read(ctx); gone || err != nil {
				return gone, err
			}
			if w.finished(ctx) {
				return false, nil
			}
			return false, UnfinishedError(fmt.Sprintf("not finished after %s, last seen: %s; it goes on without this call: look at %s %s/%s again later",
				timeout, cmp.Or(w.message, "no change"), w.gvk.Kind, w.obj.GetNamespace(), w.obj.GetName()))
		case <-tick.C():
			w.tell(ctx)
			if events != nil {
				continue
			}
			gone, err = w.read(ctx)
		case event := <-events:
			var usable bool
			if gone, usable = w.take(event); !usable {
				// The watch has ended; poll from now on.
				stop()
				events, stop = nil, func() {}
				continue
			}
		}
		if gone || err != nil {
			return gone, err
		}
		if w.finished(ctx) {
			return false, nil
		}
	}
}

// watch returns a nil channel if the caller may not watch or the API does not support it.
func (w *waiting) watch(ctx context.Context) (<-chan watch.Event, func()) {
	made, err := w.Kube.Scheme().New(w.gvk.GroupVersion().WithKind(w.gvk.Kind + "List"))
	list, isList := made.(client.ObjectList)
	if err == nil && !isList {
		err = fmt.Errorf("%T is no list", made)
	}
	if err == nil {
		var watcher watch.Interface
		watcher, err = w.Kube.Watch(ctx, list, &client.ListOptions{
			Namespace:     w.obj.GetNamespace(),
			FieldSelector: fields.OneTermEqualSelector("metadata.name", w.obj.GetName()),
			Raw:           &metav1.ListOptions{ResourceVersion: w.obj.GetResourceVersion()},
		})
		if err == nil {
			return watcher.ResultChan(), watcher.Stop
		}
	}
	log.FromContext(ctx).V(1).Info("Polling an object, because it cannot be watched", "kind", w.gvk.Kind, "reason", err.Error())
	return nil, func() {}
}

// take updates the object from a watch event. usable is false if the watch failed or, for
// an empty event, ended.
func (w *waiting) take(event watch.Event) (gone, usable bool) {
	seen, ok := event.Object.(client.Object)
	if !ok || event.Type == watch.Error || reflect.TypeOf(seen) != reflect.TypeOf(w.obj) {
		return false, false
	}
	if seen.GetName() != w.obj.GetName() || seen.GetNamespace() != w.obj.GetNamespace() {
		return false, true
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		return !w.keep(seen), true
	case watch.Deleted:
		return true, true
	default:
		return false, true
	}
}

// keep updates the object. It returns false if seen is another object of the same name.
func (w *waiting) keep(seen client.Object) bool {
	if old := w.obj.GetUID(); old != "" && seen.GetUID() != old {
		return false
	}
	reflect.ValueOf(w.obj).Elem().Set(reflect.ValueOf(seen).Elem())
	return true
}

// read reads the object. It ignores transient errors, because the next read may succeed.
func (w *waiting) read(ctx context.Context) (gone bool, err error) {
	seen, ok := reflect.New(reflect.TypeOf(w.obj).Elem()).Interface().(client.Object)
	if !ok {
		return false, fmt.Errorf("bug: %T cannot be made", w.obj)
	}
	err = w.Kube.Get(ctx, types.NamespacedName{Namespace: w.obj.GetNamespace(), Name: w.obj.GetName()}, seen)
	switch {
	case err == nil:
		return !w.keep(seen), nil
	case apierrors.IsNotFound(err):
		return true, nil
	case isTransient(err):
		return false, nil
	default:
		return false, &CallError{Verb: "get", Resource: w.gvk.Kind, Namespace: w.obj.GetNamespace(), Name: w.obj.GetName(), Err: err}
	}
}

func (w *waiting) finished(ctx context.Context) bool {
	ok, message := w.done()
	w.message = message
	w.tell(ctx)
	return ok
}

// tell sends the message if it is new, or if it was last sent more than reminderInterval
// ago.
func (w *waiting) tell(ctx context.Context) {
	now := w.clock().Now()
	if w.progress == nil || w.message == "" || w.message == w.sent && now.Sub(w.sentAt) < reminderInterval {
		return
	}
	if w.progress.tell(ctx, w.message) {
		w.sent, w.sentAt = w.message, now
	}
}
