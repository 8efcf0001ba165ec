package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// seconds returns a pointer for a request option.
func seconds(n int64) *int64 { return &n }

// events watches objects as an informer does: if a watch ends, it opens the next one at the last
// resourceVersion. The cacher ends the watch of a client that gets too little CPU to keep up.
type events struct {
	watch.Interface
	objects dynamic.ResourceInterface
	options metav1.ListOptions
}

// watching opens a watch, which ends with the test.
func watching(t *testing.T, objects dynamic.ResourceInterface, options metav1.ListOptions) *events {
	t.Helper()
	w := &events{objects: objects, options: options}
	w.open(t)
	return w
}

func (w *events) open(t *testing.T) {
	t.Helper()
	opened, err := w.objects.Watch(t.Context(), w.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Stop)
	w.Interface = opened
}

// saw records the resourceVersion for the next watch.
func (w *events) saw(event watch.Event) {
	if accessor, err := meta.Accessor(event.Object); err == nil {
		w.options.ResourceVersion = accessor.GetResourceVersion()
	}
}

// next waits for the next event that matches. If wanted is nil, every event matches.
func next(t *testing.T, w *events, wanted func(watch.Event) bool) watch.Event {
	t.Helper()
	deadline := polltest.Context(t).Done()
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				t.Log("A watch was ended")
				w.open(t)
				continue
			}
			w.saw(event)
			if wanted == nil || wanted(event) {
				return event
			}
		case <-deadline:
			t.Fatal("no such event came")
		}
	}
}

// reported returns an event formatted as its type and name.
func reported(e watch.Event) string {
	accessor, err := meta.Accessor(e.Object)
	if err != nil {
		return fmt.Sprint(e.Type, " ", e.Object)
	}
	return string(e.Type) + " " + accessor.GetName()
}

// watchListCounter counts list requests, and watch requests that ask for the initial list.
type watchListCounter struct {
	http.RoundTripper
	lists, watchLists atomic.Int32
}

func (c *watchListCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	switch {
	case query.Get("sendInitialEvents") == "true":
		c.watchLists.Add(1)
	case r.Method == http.MethodGet && query.Get("watch") == "":
		c.lists.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// listThenWatch is a client that lists first, as clients without WatchList do.
type listThenWatch struct{ cache.ListerWatcher }

// IsWatchListSemanticsUnSupported returns true, which makes the reflector list first.
func (listThenWatch) IsWatchListSemanticsUnSupported() bool { return true }

// TestInformers runs the informers of client-go on a namespace. The library compares the result of
// a WatchList with a list, and panics if they differ.
func TestInformers(t *testing.T) {
	for name, c := range map[string]struct{ metadata, watchList bool }{
		"objects by a watch":              {watchList: true},
		"objects by list and watch":       {},
		"only metadata by a watch":        {metadata: true, watchList: true},
		"only metadata by list and watch": {metadata: true},
	} {
		t.Run(name, func(t *testing.T) { followNamespace(t, newFixture(t), c.metadata, c.watchList) })
	}
}

func followNamespace(t *testing.T, f *fixture, onlyMetadata, watchList bool) {
	counter := &watchListCounter{}
	config := restclient.CopyConfig(f.config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		counter.RoundTripper = rt
		return counter
	})
	f.addWorkspace(t, "one")
	f.addWorkspace(t, "two")
	source, example := sourceOf(t, config, f.namespace, onlyMetadata)
	if !watchList {
		source = listThenWatch{source}
	}
	informer := cache.NewSharedIndexInformer(source, example, 0, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	defer func() { stop(); <-ended }()
	shows := func(want map[string]string) {
		t.Helper()
		polltest.Eventually(t, "the informer follows", func() error {
			if diff := cmp.Diff(want, labelsIn(informer.GetStore())); diff != "" {
				return fmt.Errorf("the cache (-want +got):\n%s", diff)
			}
			return nil
		})
	}
	shows(map[string]string{"coder.ada.one": "", "coder.ada.two": ""})
	if _, err := f.ws().Create(ctx, workspaceObject("coder.ada.three", spec()), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ws().Patch(ctx, "coder.ada.one", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"x"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.ws().Delete(ctx, "coder.ada.two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	shows(map[string]string{"coder.ada.one": "x", "coder.ada.three": ""})
	if used := counter.watchLists.Load() > 0; used != watchList {
		t.Errorf("%d lists by a watch, %d plain ones", counter.watchLists.Load(), counter.lists.Load())
	}
}

// labelsIn returns label app of each object in a cache.
func labelsIn(store cache.Store) map[string]string {
	out := map[string]string{}
	for _, item := range store.List() {
		if accessor, err := meta.Accessor(item); err == nil {
			out[accessor.GetName()] = accessor.GetLabels()["app"]
		}
	}
	return out
}

// sourceOf returns a ListerWatcher for the workspaces of a namespace, and an example object.
func sourceOf(t *testing.T, config *restclient.Config, namespace string, onlyMetadata bool) (cache.ListerWatcher, runtime.Object) {
	t.Helper()
	if onlyMetadata {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		objects := client.Resource(workspacesGVR).Namespace(namespace)
		return &cache.ListWatch{
			ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
			WatchFuncWithContext: objects.Watch,
		}, &metav1.PartialObjectMetadata{}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects := client.Resource(workspacesGVR).Namespace(namespace)
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: objects.Watch,
	}, &unstructured.Unstructured{}
}

func TestWatchResumesAfterAList(t *testing.T) {
	f := newFixture(t)
	f.addWorkspace(t, "one")
	list, err := f.ws().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Changes between the list and the watch must not be missed.
	f.addWorkspace(t, "two")
	id := f.addWorkspace(t, "three")
	f.coder.BuildWorkspace(id, "stop")
	f.hint(id)
	w := watching(t, f.ws(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	var got []string
	last := list.GetResourceVersion()
	for {
		e := next(t, w, nil)
		obj := e.Object.(*unstructured.Unstructured)
		if version := obj.GetResourceVersion(); len(version) < len(last) || len(version) == len(last) && version <= last {
			t.Errorf("%s has resourceVersion %s after %s", reported(e), version, last)
		}
		last = obj.GetResourceVersion()
		got = append(got, reported(e))
		if at(obj, "status", "phase") == "Stopped" {
			break
		}
	}
	if got[0] != "ADDED coder.ada.two" {
		t.Errorf("events: %q", got)
	}
	again := watching(t, f.ws(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	for _, want := range got {
		if e := next(t, again, nil); reported(e) != want {
			t.Errorf("a second watch from there has %s, want %s", reported(e), want)
		}
	}
}

func TestWatchBookmarks(t *testing.T) {
	f := newFixture(t)
	f.addWorkspace(t, "one")
	yes := true
	w := watching(t, f.ws(), metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if e := next(t, w, nil); reported(e) != "ADDED coder.ada.one" {
		t.Fatalf("first: %s", reported(e))
	}
	e := next(t, w, nil)
	first := e.Object.(*unstructured.Unstructured)
	if e.Type != watch.Bookmark || first.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || first.GetKind() != "CoderWorkspace" {
		t.Fatalf("after the initial events: %s %v", e.Type, first.Object)
	}
	// Shortly before it ends, a watch sends a bookmark, even if nothing has changed. A watch that
	// gets no CPU in its last two seconds ends without one.
	short := watching(t, f.ws(), metav1.ListOptions{
		ResourceVersion: first.GetResourceVersion(), AllowWatchBookmarks: true, TimeoutSeconds: seconds(5),
	})
	e = next(t, short, nil)
	later := e.Object.(*unstructured.Unstructured)
	if e.Type != watch.Bookmark || later.GetResourceVersion() < first.GetResourceVersion() {
		t.Errorf("at the end: %s %v, after %s", e.Type, later.Object, first.GetResourceVersion())
	}
	resumed := watching(t, f.ws(), metav1.ListOptions{ResourceVersion: later.GetResourceVersion()})
	f.addWorkspace(t, "two")
	if e := next(t, resumed, nil); reported(e) != "ADDED coder.ada.two" {
		t.Errorf("from a bookmark: %s", reported(e))
	}
}

func TestWatchOfWhatIsForgotten(t *testing.T) {
	f := newFixture(t)
	forgotten := metav1.ListOptions{ResourceVersion: "1"}
	w, err := f.ws().Watch(t.Context(), forgotten)
	if err == nil {
		t.Cleanup(w.Stop)
		err = apierrors.FromObject(next(t, &events{Interface: w, objects: f.ws(), options: forgotten}, nil).Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("%v, want 410", err)
	}
	far := fmt.Sprint(time.Now().Add(24 * time.Hour).UnixMicro())
	got := f.do(t, http.MethodGet, f.path("coderworkspaces?resourceVersionMatch=NotOlderThan&resourceVersion="+far), nil, "")
	if got.status != http.StatusGatewayTimeout || !strings.Contains(got.body, "Too large resource version") {
		t.Errorf("a list of the future: %d %s", got.status, got.body)
	}
	// An earlier release that stored no records used revisions like this.
	if w, err := f.ws().Watch(t.Context(), metav1.ListOptions{ResourceVersion: far}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from the future: %v, want 410", err)
		if err == nil {
			w.Stop()
		}
	}
	for _, version := range []string{"x", "-1", "1.5"} {
		if _, err := f.ws().List(t.Context(), metav1.ListOptions{ResourceVersion: version}); codeOf(err) != http.StatusBadRequest && !apierrors.IsInvalid(err) {
			t.Errorf("resourceVersion=%s: %v, want 400", version, err)
		}
	}
}

func TestWatchThroughSelectors(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	list, err := f.ws().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	from := list.GetResourceVersion()
	labelled := watching(t, f.ws(), metav1.ListOptions{LabelSelector: "app=x", ResourceVersion: from})
	running := watching(t, f.ws(), metav1.ListOptions{FieldSelector: "status.phase=Running", ResourceVersion: from})
	for _, patch := range []string{`{"metadata":{"labels":{"app":"x"}}}`, `{"metadata":{"labels":{"app":"y"}}}`, `{"metadata":{"labels":{"app":"x"}}}`} {
		if _, err := f.ws().Patch(t.Context(), "coder.ada.dev", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"ADDED coder.ada.dev", "DELETED coder.ada.dev", "ADDED coder.ada.dev"} {
		if e := next(t, labelled, nil); reported(e) != want {
			t.Errorf("by label: %s, want %s", reported(e), want)
		}
	}
	f.coder.BuildWorkspace(id, "stop")
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return at(ws, "status", "phase") == "Stopped" })
	f.coder.BuildWorkspace(id, "start")
	for _, want := range []string{"DELETED coder.ada.dev", "ADDED coder.ada.dev"} {
		if e := next(t, running, func(e watch.Event) bool { return e.Type != watch.Modified }); reported(e) != want {
			t.Errorf("by phase: %s, want %s", reported(e), want)
		}
	}
}

func TestWatchOfChangesInCoder(t *testing.T) {
	f := newFixture(t)
	id := f.addWorkspace(t, "dev")
	w := watching(t, f.ws(), metav1.ListOptions{})
	if e := next(t, w, nil); reported(e) != "ADDED coder.ada.dev" {
		t.Fatalf("what is there: %s", reported(e))
	}
	f.coder.BuildWorkspace(id, "stop")
	next(t, w, func(e watch.Event) bool {
		return reported(e) == "MODIFIED coder.ada.dev" && at(e.Object.(*unstructured.Unstructured), "status", "phase") == "Stopped"
	})
	f.coder.RemoveWorkspace(id)
	next(t, w, func(e watch.Event) bool { return reported(e) == "DELETED coder.ada.dev" })
	templates := watching(t, f.tmpl(), metav1.ListOptions{FieldSelector: "metadata.name=coder.other"})
	other := f.coder.AddTemplate("coder", "other", map[string]string{mainTF: "# x"})
	if e := next(t, templates, nil); reported(e) != "ADDED coder.other" {
		t.Errorf("a template: %s", reported(e))
	}
	f.coder.DeleteTemplate(other)
	next(t, templates, func(e watch.Event) bool { return reported(e) == "DELETED coder.other" })
}
