package objectlog

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// expiredEvent says whether an event is the error 410.
func expiredEvent(event watch.Event) bool {
	status, ok := event.Object.(*metav1.Status)
	return ok && event.Type == watch.Error && status.Code == 410 && status.Reason == metav1.StatusReasonExpired
}

func watchFrom(t *testing.T, s storage.Interface, revision string) watch.Interface {
	t.Helper()
	options := everything()
	options.ResourceVersion = revision
	w, err := s.Watch(t.Context(), "/pods", options)
	if err != nil {
		t.Error(err)
		return watch.NewEmptyWatch()
	}
	t.Cleanup(w.Stop)
	return w
}

// TestWatchEndsWithItsHistory: who may have missed something is told so.
func TestWatchEndsWithItsHistory(t *testing.T) {
	tests := map[string]struct {
		revision string
		lose     func(*Log) error
	}{
		"reset while it watches": {revision: "5", lose: func(l *Log) error { return l.Reset(nil, 9) }},
		"reset at the head":      {revision: "5", lose: func(l *Log) error { return l.Reset(nil, 5) }},
		"older than the floor": {revision: "2", lose: func(l *Log) error {
			compact(l, 4)
			return nil
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newTestStore(t)
			l := s.config.Log
			mustAppend(t, l, put(2, "a"), put(3, "b"), put(4, "c"), put(5, "d"))
			var w watch.Interface
			if test.revision == "5" {
				w = watchFrom(t, s, test.revision)
			}
			if err := test.lose(l); err != nil {
				t.Fatal(err)
			}
			if w == nil {
				w = watchFrom(t, s, test.revision)
			}
			if event := <-w.ResultChan(); !expiredEvent(event) {
				t.Errorf("got %v %v", event.Type, event.Object)
			}
			if _, more := <-w.ResultChan(); more {
				t.Error("the watch goes on")
			}
		})
	}
}

// TestWatchLeavesNothingBehind: what a watch holds of the log goes with it.
func TestWatchLeavesNothingBehind(t *testing.T) {
	s := newTestStore(t)
	w := watchFrom(t, s, "")
	mustAppend(t, s.config.Log, put(2, "a"))
	<-w.ResultChan()
	w.Stop()
	for range w.ResultChan() {
	}
	if cursors, open := len(s.config.Log.cursors), len(s.watches.open); cursors != 0 || open != 0 {
		t.Errorf("%d cursors and %d watches are left", cursors, open)
	}
}

// change is an event as a client sees it.
type change struct {
	Type     watch.EventType
	Name     string
	Revision string
}

func changeOf(event watch.Event) change {
	m, ok := event.Object.(Object)
	if !ok {
		return change{Type: event.Type}
	}
	return change{Type: event.Type, Name: m.GetName(), Revision: m.GetResourceVersion()}
}

// TestCacherLosesNoEvent has many write at once while clients of the cacher watch.
// Each gets every event once, in the order of the log. On a machine that is too
// busy the cacher ends a watch whose goroutine got no time; the client then goes
// on from what it has seen, as informers do, and must not be told 410.
func TestCacherLosesNoEvent(t *testing.T) {
	const writers, objects, clients = 4, 60, 5
	c := newCached(t)
	var watches []watch.Interface
	for range clients {
		watches = append(watches, watchFrom(t, c, "1"))
	}
	var writing, reading sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			for i := range objects {
				churn(t, c, fmt.Sprintf("p%d-%d", writer, i))
			}
		})
	}
	got := make([][]change, clients)
	for i, w := range watches {
		reading.Go(func() { got[i] = follow(t, c, w, "1", writers*objects*3) })
	}
	writing.Wait()
	reading.Wait()
	all := eventsOf(t, c.raw.config.Log)
	for i := range got {
		if diff := cmp.Diff(all, got[i]); diff != "" {
			t.Errorf("client %d (-log +client):\n%.2000s", i, diff)
		}
	}
}

// follow reads a watch from revision last as an informer does: where it ends it opens
// the next one.
func follow(t *testing.T, s storage.Interface, w watch.Interface, last string, count int) (changes []change) {
	for len(changes) < count {
		event, more := <-w.ResultChan()
		switch {
		case !more:
			t.Logf("A watch was ended after %d events", len(changes))
			w = watchFrom(t, s, last)
		case event.Type == watch.Error:
			t.Errorf("after %d events: %v", len(changes), event.Object)
			return changes
		default:
			changes = append(changes, changeOf(event))
			last = changes[len(changes)-1].Revision
		}
	}
	return changes
}

// churn creates, changes and removes a pod.
func churn(t *testing.T, s storage.Interface, name string) {
	ctx, key := context.Background(), podKey("a", name)
	if err := s.Create(ctx, key, pod("a", name), nil, 0); err != nil {
		t.Error(err)
	}
	if err := s.GuaranteedUpdate(ctx, key, &example.Pod{}, false, nil, increment, nil); err != nil {
		t.Error(err)
	}
	if err := s.Delete(ctx, key, &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// eventsOf are all events of the log.
func eventsOf(t *testing.T, l *Log) []change {
	events, ok := l.Since(l.Floor(), 1_000_000)
	if !ok {
		t.Error("the log lost its history")
	}
	var changes []change
	for i := range events {
		e := &events[i]
		c := change{Type: watch.Modified, Revision: strconv.FormatUint(e.Revision, 10)}
		switch {
		case e.Object == nil:
			c.Type, c.Name = watch.Deleted, e.Previous.Object.GetName()
		case e.Previous == nil:
			c.Type, c.Name = watch.Added, e.Object.GetName()
		default:
			c.Name = e.Object.GetName()
		}
		changes = append(changes, c)
	}
	return changes
}

// TestCacherComesBackAfterReset: its clients get 410 or an end, and then a list
// that shows what is there now.
func TestCacherComesBackAfterReset(t *testing.T) {
	c := newCached(t)
	l := c.raw.config.Log
	if err := c.Create(t.Context(), podKey("a", "old"), pod("a", "old"), nil, 0); err != nil {
		t.Fatal(err)
	}
	w := watchFrom(t, c, "2")
	if err := l.Reset([]*Entry{{Key: podKey("a", "new"), Revision: 9, Object: stamped(pod("a", "new"), 9)}}, 10); err != nil {
		t.Fatal(err)
	}
	for event := range w.ResultChan() {
		if event.Type != watch.Bookmark && !expiredEvent(event) {
			t.Errorf("got %v %v", event.Type, event.Object)
		}
	}
	list := &example.PodList{}
	polltest.Eventually(t, "a list after the reset", func() bool {
		return c.ReadinessCheck() == nil && c.GetList(t.Context(), "/pods", everything(), list) == nil
	})
	if len(list.Items) != 1 || list.Items[0].Name != "new" || list.ResourceVersion != "10" {
		t.Errorf("the list at %s has %d items", list.ResourceVersion, len(list.Items))
	}
	if event := <-watchFrom(t, c, "2").ResultChan(); !expiredEvent(event) {
		t.Errorf("a watch from before the reset got %v %v", event.Type, event.Object)
	}
}

func stamped(p *example.Pod, revision uint64) *example.Pod {
	stamp(p, revision)
	return p
}

// TestNewReplicaGoesOn: a client that was with another replica goes on where it
// was with the fresh cache of this one, and gets no 410. The cache may end its watch
// while it still hands out the history that it has just read.
func TestNewReplicaGoesOn(t *testing.T) {
	first := newTestLog(t, Config{History: 100, SnapshotEvery: 32})
	for revision := uint64(100); revision < 400; revision++ {
		mustAppend(t, first, put(revision, fmt.Sprint(revision%7)))
	}
	entries, floor := first.Origin()
	events, _ := first.Since(floor, 1000)
	second := New(Config{})
	store := newStoreOn(second)
	cached, destroy, err := NewCacher(store, cacherConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	if cached.ReadinessCheck() == nil {
		t.Error("the cache is ready before there is a log")
	}
	if err := second.Reset(entries, floor); err != nil {
		t.Fatal(err)
	}
	for i := range events {
		mustAppend(t, second, events[i].Change)
	}
	polltest.Eventually(t, "the replica being ready", func() bool { return cached.ReadinessCheck() == nil })
	var want []change
	for revision := floor + 4; revision < 400; revision++ {
		want = append(want, change{Type: watch.Modified, Name: fmt.Sprint(revision % 7), Revision: strconv.FormatUint(revision, 10)})
	}
	since := strconv.FormatUint(floor+3, 10)
	if diff := cmp.Diff(want, follow(t, cached, watchFrom(t, cached, since), since, len(want))); diff != "" {
		t.Errorf("the client (-log +client):\n%.2000s", diff)
	}
	if event := <-watchFrom(t, cached, strconv.FormatUint(floor-1, 10)).ResultChan(); !expiredEvent(event) {
		t.Errorf("a revision below the floor got %v %v", event.Type, event.Object)
	}
	list := &example.PodList{}
	if err := cached.GetList(t.Context(), "/pods", everything(), list); err != nil || list.ResourceVersion != "399" {
		t.Errorf("a consistent list shows %s: %v", list.ResourceVersion, err)
	}
}
