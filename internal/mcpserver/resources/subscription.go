package resources

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// tellInterval is the minimum time between two notifications.
	tellInterval = time.Second
	// A watch that ended is opened again after firstDelay. While that fails, the delay
	// doubles up to longestDelay. The jitter is at most the delay itself.
	firstDelay   = time.Second
	longestDelay = time.Minute
)

// Watch calls changed after changes of a resource until the context ends: at most once a
// second, and sometimes without a change. It returns at once. It returns a *jsonrpc.Error
// if the resource does not exist, cannot be watched, or the caller may not read it. If the
// caller loses the permission later, Watch calls changed a last time.
//
// It watches the object. So parts that change independently of the object (pods, events,
// logs) cannot be watched.
func (r *Resources) Watch(ctx context.Context, uri string, changed func()) error {
	a, ok := parseAddress(uri)
	switch {
	case !ok:
		return mcp.ResourceNotFoundError(uri)
	case a.part != "" && a.part != partFiles:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(
			"%s cannot be subscribed to; subscribe to %s, which changes with it, and read it then", uri, a.object())}
	}
	w := &watching{resources: r, address: a.object(), news: make(chan struct{}, 1)}
	version, err := w.version(ctx)
	if err != nil {
		return clientError(ctx, uri, err)
	}
	// The first watch is opened synchronously, so that a caller who may get but not watch
	// gets an error.
	stream, err := w.open(ctx, version)
	if err != nil {
		return clientError(ctx, uri, err)
	}
	go w.tell(ctx, changed)
	go w.run(ctx, stream, version)
	return nil
}

// watching is the watch of one resource for one client.
type watching struct {
	resources *Resources
	address   address
	// news contains an element if there is a change for which changed was not called yet.
	news chan struct{}
}

func (w *watching) options(further client.ListOption) []client.ListOption {
	options := []client.ListOption{client.InNamespace(w.address.namespace), further}
	if w.address.name != "" {
		options = append(options, client.MatchingFields{metav1.ObjectNameField: w.address.name})
	}
	return options
}

// version returns the current resource version of the watched list. The resource version of
// an object may be too old to start a watch. It returns NotFound if the watched object does
// not exist.
func (w *watching) version(ctx context.Context) (string, error) {
	list := w.address.collection.metadataList()
	if err := w.resources.kube.List(ctx, list, w.options(client.Limit(1))...); err != nil {
		return "", w.address.failed("list", err)
	}
	if w.address.name != "" && len(list.Items) == 0 {
		c := w.address.collection
		missing := apierrors.NewNotFound(schema.GroupResource{Group: c.kind.Group, Resource: c.resource}, w.address.name)
		return list.ResourceVersion, w.address.failed("list", missing)
	}
	return list.ResourceVersion, nil
}

func (w *watching) open(ctx context.Context, version string) (watch.Interface, error) {
	from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}}
	// Only metadata is read, because it changes with every change of the object.
	stream, err := w.resources.kube.Watch(ctx, w.address.collection.metadataList(), w.options(from)...)
	if err != nil {
		return nil, w.address.failed("watch", err)
	}
	return stream, nil
}

// tell calls changed at most once in tellInterval.
func (w *watching) tell(ctx context.Context, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.news:
			changed()
		}
		select {
		case <-ctx.Done():
			return
		case <-w.resources.clock.After(tellInterval):
		}
	}
}

func (w *watching) changed() {
	select {
	case w.news <- struct{}{}:
	default:
		// There is already a pending notification, which covers this change.
	}
}

// run reads the stream, and opens it again whenever it ends.
func (w *watching) run(ctx context.Context, stream watch.Interface, version string) {
	delay := firstDelay
	for {
		if stream != nil {
			version = w.follow(ctx, stream, version)
			delay = firstDelay
		}
		select {
		case <-ctx.Done():
			return
		case <-w.resources.clock.After(delay + w.resources.jitter(delay)):
		}
		delay = min(2*delay, longestDelay)
		var err error
		stream, version, err = w.reopen(ctx, version)
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			// The caller may no longer watch the resource.
			w.changed()
			return
		}
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("Cannot watch a resource", "resource", w.address.String(), "error", err.Error())
		}
	}
}

// reopen starts a watch at a resource version. If the version is empty because the old one
// expired, it reports a change, because changes may have been missed.
func (w *watching) reopen(ctx context.Context, since string) (stream watch.Interface, version string, err error) {
	version = since
	if version == "" {
		// If the object was deleted, keep watching: it may be created again.
		if version, err = w.version(ctx); err != nil && !apierrors.IsNotFound(err) {
			return nil, since, err
		}
		w.changed()
	}
	stream, err = w.open(ctx, version)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		version = ""
	}
	return stream, version, err
}

// follow reads a stream to its end, and returns the resource version at which to continue.
// It returns "" if the version has expired.
func (w *watching) follow(ctx context.Context, stream watch.Interface, version string) string {
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return version
		case event, open := <-stream.ResultChan():
			if !open {
				return version
			}
			obj, err := meta.Accessor(event.Object)
			if event.Type == watch.Error || err != nil {
				if err := apierrors.FromObject(event.Object); apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
					version = ""
				}
				return version
			}
			version = obj.GetResourceVersion()
			if event.Type != watch.Bookmark && (w.address.name == "" || obj.GetName() == w.address.name) {
				w.changed()
			}
		}
	}
}
