package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	// A build of the fake takes between one and two of these: as little as Coder's own.
	buildStep = 2 * time.Second
	probe     = "coder.admin.probe"
)

// history is the workload on one control plane that three replicas serve.
type history struct {
	ns           string
	names        *coders
	coder        *coderdtest.Server
	colleague    *colleague
	replicas     replicas
	observations *observations
	promise      *promise
	calls        *callLog
	// first are the objects before the work begins, at revision from.
	first map[string]labels.Set
	from  uint64
}

// TestHistory: clients write and read at three replicas and in Coder itself, watchers at
// all replicas start at random revisions, and replicas are killed, ended and paused. The
// recorded calls about each object are linearizable (linear_test.go); one log explains
// what every watch and every list showed (observations_test.go); nothing is created twice;
// there is no second full read of Coder; and at the end all replicas have the same state
// as Coder. It is the only parallel test with the aggregated API, of which only one program mirrors.
func TestHistory(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var builds, writing, watching sync.WaitGroup
	builds.Go(func() { every(ctx, buildStep, h.coder.AdvanceBuilds) })
	stores := h.informers(ctx, t)
	watched, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	watchers := h.watchers()
	for _, w := range watchers {
		watching.Go(func() { w.run(watched) })
	}
	written, stopWriting := context.WithCancel(ctx)
	defer stopWriting()
	for i := range 4 {
		w := &writer{fmt.Sprintf("writer%d", i), h.ns, h.replicas, h.observations, h.promise, h.calls, i == 0}
		writing.Go(func() { w.run(written) })
	}
	for _, fixed := range append(slices.Clone(h.replicas), nil, nil) {
		writing.Go(func() { (&reader{h, fixed}).run(written) })
	}
	writing.Go(func() { h.colleague.run(written) })

	h.faults(t)

	stopWriting()
	writing.Wait()
	stopWatching()
	watching.Wait()
	t.Logf("the colleague did %v", h.colleague.done)
	objects, until := h.converged(t)
	end, cancel := context.WithTimeout(ctx, polltest.Timeout())
	defer cancel()
	for _, w := range watchers {
		if w.selector.Empty() {
			watching.Go(func() { w.catchUp(end, until) })
		}
	}
	watching.Wait()
	h.observations.check(t, h.first, h.from)
	h.observations.excused(t, h.replicas)
	h.calls.linearizable(t)
	h.promise.kept(t, objects)
	h.once(t)
	for i, store := range stores {
		polltest.Eventually(t, fmt.Sprintf("informer %d holds what there is", i), func(ctx context.Context) error {
			list, err := h.list(ctx, h.replicas.any())
			if err != nil {
				return err
			}
			if diff := cmp.Diff(revisionsOf(byName(list)), revisionsIn(store)); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
	all, counted := h.names.loads(h.ns, "coder")
	t.Logf("all workspaces were read %d times, counted %d times", all, counted)
	if all > 1+counted {
		t.Errorf("Coder was read %d times in full, and only %d times there was reason to", all, counted)
	}
	stop()
	builds.Wait()
}

func newHistory(t *testing.T) *history {
	t.Helper()
	names, proxy := startCoders(t)
	h := &history{ns: namespace(t), names: names, observations: &observations{}, promise: newPromise(), calls: newCallLog()}
	controller := startProcess(t, proxy, "--app=controller", "--leader-elect=false", "--watch-namespaces="+h.ns)
	controller.ready(t)
	h.coder = controlPlaneReady(t, names, h.ns, "coder", coderdtest.WithManualBuilds())
	controller.kill()
	template := h.coder.AddTemplate("coder", "hello", map[string]string{"main.tf": "# nothing\n"})
	names20 := []string{probe}
	h.coder.AddWorkspace("admin", template, "probe")
	for i := range 12 {
		h.coder.AddWorkspace("admin", template, fmt.Sprintf("old-%d", i))
		names20 = append(names20, fmt.Sprintf("coder.admin.old-%d", i))
	}
	h.promise = newPromise(names20[1:]...)
	h.colleague = newColleague(t, h, template)
	// The library logs slow clients only at this level.
	h.replicas = startReplicas(t, proxy, 3, "--watch-namespaces="+h.ns, "--log-level=debug")
	h.replicas.leader(t)
	h.first = map[string]labels.Set{}
	polltest.Eventually(t, "all workspaces are there", func(ctx context.Context) error {
		list, err := h.list(ctx, h.replicas[0])
		if err == nil && len(list.Items) != len(names20) {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		if err != nil {
			return err
		}
		for _, object := range list.Items {
			h.first[object.GetName()] = object.GetLabels()
			h.calls.add(object.GetName(), call{verb: creates}, h.calls.now(), found(&object))
		}
		h.from = revisionOf(list.GetResourceVersion())
		return nil
	})
	return h
}

func newColleague(t *testing.T, h *history, template uuid.UUID) *colleague {
	t.Helper()
	client, err := coderd.New(coderd.Config{URL: h.coder.URL, Token: h.coder.AddUser("colleague", "owner")})
	if err != nil {
		t.Fatal(err)
	}
	return &colleague{client: client, owner: "colleague", template: template, fault: h.observations.fault}
}

func (h *history) workspaces(r *replica) dynamic.ResourceInterface {
	return r.client.Resource(workspacesGVR).Namespace(h.ns)
}

func (h *history) list(ctx context.Context, r *replica) (*unstructured.UnstructuredList, error) {
	return h.workspaces(r).List(ctx, metav1.ListOptions{})
}

// watchers returns two watchers for each replica, one of them with a selector, and two
// that change replicas.
func (h *history) watchers() []*watcher {
	some := labels.SelectorFromSet(labels.Set{"probe": "created"})
	var all []*watcher
	for i, r := range append(slices.Clone(h.replicas), nil) {
		for what, selector := range map[string]labels.Selector{"all": labels.Everything(), "created": some} {
			all = append(all, &watcher{
				name: fmt.Sprintf("watcher%d of %s", i, what), namespace: h.ns, replicas: h.replicas, fixed: r,
				selector: selector, observations: h.observations, seen: []uint64{h.from},
			})
		}
	}
	return all
}

// informers cache the workspaces as controllers do, through any running replica when
// they connect, like a Service.
func (h *history) informers(ctx context.Context, t *testing.T) []cache.Store {
	t.Helper()
	var stores []cache.Store
	for range 3 {
		client, err := dynamic.NewForConfig(h.replicas.service())
		if err != nil {
			t.Fatal(err)
		}
		informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, h.ns, nil)
		informer := informers.ForResource(workspacesGVR).Informer()
		informers.Start(ctx.Done())
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatal("an informer is not filled")
		}
		t.Cleanup(informers.Shutdown)
		stores = append(stores, informer.GetStore())
	}
	return stores
}

// converged waits until all replicas have the same state as Coder. It returns the
// objects, and the revision of the list.
func (h *history) converged(t *testing.T) (objects map[string]*unstructured.Unstructured, revision uint64) {
	t.Helper()
	began := time.Now()
	polltest.Eventually(t, "all replicas show what Coder has", func(ctx context.Context) error {
		if n := h.coder.ActiveBuilds(); n > 0 {
			return fmt.Errorf("%d builds are under way", n)
		}
		all, err := h.colleague.client.WorkspacePage(ctx, 0, coderd.MaxWorkspacePage)
		if err != nil {
			return err
		}
		want := map[string]string{}
		for _, w := range all.Workspaces {
			want["coder."+w.OwnerName+"."+w.Name] = describe(w.LatestBuild.ID.String(), w.TTL)
		}
		for _, r := range h.replicas {
			list, err := h.list(ctx, r)
			if err != nil {
				return err
			}
			objects, revision = byName(list), revisionOf(list.GetResourceVersion())
			got := map[string]string{}
			for name, object := range objects {
				build, _, _ := unstructured.NestedString(object.Object, "status", "latestBuildID")
				got[name] = describe(build, ttlOf(object))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("%s shows (-Coder, +replica):\n%s", r.name, diff)
			}
		}
		return h.same(ctx, objects)
	})
	t.Logf("%d workspaces, equal everywhere %.1f s after the last write", len(objects), time.Since(began).Seconds())
	return objects, revision
}

// same checks that the replicas return identical objects.
func (h *history) same(ctx context.Context, want map[string]*unstructured.Unstructured) error {
	for _, r := range h.replicas {
		list, err := h.list(ctx, r)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, byName(list)); diff != "" {
			return fmt.Errorf("%s differs from another replica:\n%s", r.name, diff)
		}
	}
	return nil
}
