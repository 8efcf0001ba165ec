package resources

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// broadcast is a fake API whose watches the test controls.
type broadcast struct {
	t *testing.T
	w *world
	// opened receives the watches in the order in which they are opened.
	opened chan opened
	// refuse is the error of further watches.
	refuse atomic.Pointer[error]
	told   atomic.Int32
}

type opened struct {
	stream    *watch.FakeWatcher
	version   string
	fields    string
	namespace string
	caller    string
	bookmarks bool
}

func newBroadcast(t *testing.T, objects ...client.Object) *broadcast {
	t.Helper()
	b := &broadcast{t: t, w: newWorld(t, objects...), opened: make(chan opened, 10)}
	b.w.funcs.Watch = func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
		options := (&client.ListOptions{}).ApplyOptions(opts)
		o := opened{stream: watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10}), version: options.Raw.ResourceVersion, namespace: options.Namespace,
			bookmarks: options.Raw.AllowWatchBookmarks}
		if options.FieldSelector != nil {
			o.fields = options.FieldSelector.String()
		}
		if caller, ok := request.UserFrom(ctx); ok {
			o.caller = caller.GetName()
		}
		var err error
		if refused := b.refuse.Load(); refused != nil {
			err = *refused
		}
		b.opened <- o
		return o.stream, err
	}
	b.w.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if err := c.List(ctx, list, opts...); err != nil {
			return err
		}
		list.SetResourceVersion("100")
		return nil
	}
	return b
}

// watch watches until the test ends, or until cancel is called.
func (b *broadcast) watch(uri string) (cancel func(), err error) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.w.ctx)
	b.t.Cleanup(cancel)
	return cancel, b.w.resources(b.t).Watch(ctx, uri, func() { b.told.Add(1) })
}

func (b *broadcast) next() opened {
	b.t.Helper()
	select {
	case o := <-b.opened:
		return o
	case <-polltest.Context(b.t).Done():
		b.t.Fatal("no watch was opened")
		return opened{}
	}
}

// eventually waits until so returns true.
func (b *broadcast) eventually(what string, so func() bool) {
	b.t.Helper()
	polltest.Eventually(b.t, what, func() error {
		if !so() {
			return fmt.Errorf("told %d times", b.told.Load())
		}
		return nil
	})
}

// waits waits until this number of timers wait for the clock.
func (b *broadcast) waits(n int) {
	b.t.Helper()
	b.eventually("waiting for the clock", func() bool { return b.w.clock.Waiters() == n })
}

func (b *broadcast) tells(n int32) {
	b.t.Helper()
	b.eventually("told", func() bool { return b.told.Load() >= n })
	if got := b.told.Load(); got != n {
		b.t.Fatalf("told %d times, want %d", got, n)
	}
}

func metadataOf(name, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

func TestWatch(t *testing.T) {
	before := runtime.NumGoroutine()
	b := newBroadcast(t, newWorkspace("coder", "coder.ada.dev"))
	cancel, err := b.watch("coder://workspaces/coder/coder.ada.dev")
	if err != nil {
		t.Fatal(err)
	}
	o := b.next()
	if diff := cmp.Diff([]string{"100", "metadata.name=coder.ada.dev", "coder", "ada"}, []string{o.version, o.fields, o.namespace, o.caller}); diff != "" {
		t.Errorf("the watch (-want +got):\n%s", diff)
	}
	if !o.bookmarks {
		t.Error("the watch has no bookmarks, so what it would begin with again is forgotten in a quiet time")
	}
	o.stream.Modify(metadataOf("coder.ada.dev", "101"))
	b.tells(1)
	b.waits(1)
	// Changes within the interval are reported together at its end.
	o.stream.Modify(metadataOf("coder.ada.dev", "102"))
	o.stream.Delete(metadataOf("coder.ada.dev", "103"))
	o.stream.Action(watch.Bookmark, metadataOf("", "104"))
	b.eventually("read", func() bool { return len(o.stream.ResultChan()) == 0 })
	b.tells(1)
	b.w.clock.Step(time.Second)
	b.tells(2)
	b.waits(1)
	b.w.clock.Step(time.Second)
	b.waits(0)
	b.tells(2)

	// A watch that ends is continued at its last resource version.
	o.stream.Stop()
	b.waits(1)
	b.w.clock.Step(firstDelay)
	if o = b.next(); o.version != "104" {
		t.Errorf("the next watch begins at %s", o.version)
	}
	// Events about other objects are not reported.
	o.stream.Add(metadataOf("another", "105"))
	o.stream.Stop()
	b.waits(1)
	b.w.clock.Step(firstDelay)
	if o = b.next(); o.version != "105" {
		t.Errorf("the watch after that begins at %s", o.version)
	}
	o.stream.Add(metadataOf("coder.ada.dev", "106"))
	b.tells(3)
	b.waits(1)
	b.w.clock.Step(time.Second)
	b.waits(0)
	b.tells(3)
	cancel()
	b.eventually("stopped", o.stream.IsStopped)
	b.eventually("ended", func() bool { return runtime.NumGoroutine() <= before })
}

func TestWatchAfterHistoryWasForgotten(t *testing.T) {
	b := newBroadcast(t, newControlPlane("coder", "prod"))
	if _, err := b.watch("coder://controlplanes"); err != nil {
		t.Fatal(err)
	}
	o := b.next()
	if o.fields != "" || o.namespace != "" {
		t.Errorf("the watch of all: %+v", o)
	}
	o.stream.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
	b.waits(1)
	b.w.clock.Step(firstDelay)
	if o = b.next(); o.version != "100" {
		t.Errorf("the next watch begins at %s", o.version)
	}
	b.tells(1)
	// Other errors do not change the resource version.
	b.waits(1)
	b.w.clock.Step(tellInterval)
	o.stream.Action(watch.Bookmark, metadataOf("", "107"))
	o.stream.Error(&apierrors.NewInternalError(errors.New("broken")).ErrStatus)
	b.waits(1)
	b.w.clock.Step(firstDelay)
	if o = b.next(); o.version != "107" {
		t.Errorf("the next watch begins at %s", o.version)
	}
	b.tells(1)
}

func TestWatchAnswersOutages(t *testing.T) {
	b := newBroadcast(t, newControlPlane("coder", "prod"))
	if _, err := b.watch("coder://controlplanes/coder/prod"); err != nil {
		t.Fatal(err)
	}
	o := b.next()
	away := error(apierrors.NewServiceUnavailable("away"))
	b.refuse.Store(&away)
	o.stream.Stop()
	for _, delay := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		b.waits(1)
		b.w.clock.Step(delay - time.Millisecond)
		if b.w.clock.Waiters() != 1 {
			t.Fatalf("it did not wait for %s", delay)
		}
		b.w.clock.Step(time.Millisecond)
		b.next()
	}
	b.refuse.Store(nil)
	b.waits(1)
	b.w.clock.Step(longestDelay)
	o = b.next()
	b.tells(0)
	o.stream.Modify(metadataOf("prod", "101"))
	b.tells(1)
	b.waits(1)
	b.w.clock.Step(tellInterval)
	// If the caller loses the permission, one last change is reported.
	no := forbidden("codercontrolplanes", "prod")
	b.refuse.Store(&no)
	o.stream.Stop()
	b.waits(1)
	b.w.clock.Step(firstDelay)
	b.next()
	b.tells(2)
	b.waits(1)
	b.w.clock.Step(time.Hour)
	b.waits(0)
}

func TestWhatCannotBeWatched(t *testing.T) {
	for name, c := range map[string]struct {
		uri    string
		refuse error
		want   string
	}{
		"nothing":         {"coder://secrets/a/b", nil, "Resource not found"},
		"a missing one":   {"coder://workspaces/coder/coder.ada.none", nil, "Resource not found"},
		"a log":           {"coder://workspaces/coder/coder.ada.dev/log", nil, "coder://workspaces/coder/coder.ada.dev/log cannot be subscribed to; subscribe to coder://workspaces/coder/coder.ada.dev"},
		"pods":            {"coder://controlplanes/coder/prod/pods", nil, "cannot be subscribed to"},
		"events":          {"coder://controlplanes/coder/prod/events", nil, "cannot be subscribed to"},
		"a forbidden one": {"coder://workspaces/coder/coder.ada.dev", forbidden("coderworkspaces", "coder.ada.dev"), `user "ada" may not watch coderworkspaces coder/coder.ada.dev`},
	} {
		b := newBroadcast(t, newWorkspace("coder", "coder.ada.dev"))
		if c.refuse != nil {
			b.refuse.Store(&c.refuse)
		}
		_, err := b.watch(c.uri)
		var rpc *jsonrpc.Error
		if !errors.As(err, &rpc) || !strings.Contains(rpc.Message, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		b.waits(0)
	}
}

func TestFilesAreWatchedWithTheirTemplate(t *testing.T) {
	b := newBroadcast(t, newTemplate("coder", "coder.small", nil), &corev1.Pod{})
	if _, err := b.watch("coder://templates/coder/coder.small/files/main.tf"); err != nil {
		t.Fatal(err)
	}
	if o := b.next(); o.fields != "metadata.name=coder.small" {
		t.Errorf("%+v", o)
	}
}
