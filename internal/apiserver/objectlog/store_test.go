package objectlog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// increment counts in the generation.
func increment(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
	input.(Object).SetGeneration(input.(Object).GetGeneration() + 1)
	return input, nil, nil
}

// TestStoreBeforeItsLog: an empty answer would be a lie, so there is none.
func TestStoreBeforeItsLog(t *testing.T) {
	l := New(Config{})
	s := newStoreOn(l)
	ctx := t.Context()
	calls := map[string]func() error{
		"get":    func() error { return s.Get(ctx, podKey("a", "x"), storage.GetOptions{}, &example.Pod{}) },
		"list":   func() error { return s.GetList(ctx, "/pods", everything(), &example.PodList{}) },
		"create": func() error { return s.Create(ctx, podKey("a", "x"), pod("a", "x"), nil, 0) },
		"update": func() error {
			return s.GuaranteedUpdate(ctx, podKey("a", "x"), &example.Pod{}, true, nil, increment, nil)
		},
		"delete": func() error {
			return s.Delete(ctx, podKey("a", "x"), &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		},
		"watch": func() error {
			_, err := s.Watch(ctx, "/pods", everything())
			return err
		},
		"revision": func() error {
			_, err := s.GetCurrentResourceVersion(ctx)
			return err
		},
	}
	for name, call := range calls {
		err := call()
		if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !ok || seconds != 1 {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if s.ReadinessCheck() == nil {
		t.Error("the store says that it is ready")
	}
	if err := l.Reset(nil, 9); err != nil {
		t.Fatal(err)
	}
	if err := s.ReadinessCheck(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"list", "create", "get", "update", "watch", "revision", "delete"} {
		if err := calls[name](); err != nil {
			t.Errorf("%s after the log is there: %v", name, err)
		}
	}
}

// TestStoreIsConsistent: a read without a revision shows what the writer has.
func TestStoreIsConsistent(t *testing.T) {
	l := newTestLog(t, Config{})
	mustAppend(t, l, put(5, "x"))
	asked := make(chan struct{})
	s := newStoreOn(l, func(config *StoreConfig) {
		config.Fresh = func(context.Context) (uint64, error) {
			asked <- struct{}{}
			return 8, nil
		}
	})
	read := func(get func(out *example.Pod) error) string {
		out, done := &example.Pod{}, make(chan error, 1)
		go func() { done <- get(out) }()
		<-asked
		if l.Head() < 8 {
			mustAppend(t, l, put(8, "x"))
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		return out.ResourceVersion
	}
	if got := read(func(out *example.Pod) error {
		return s.Get(t.Context(), podKey("a", "x"), storage.GetOptions{}, out)
	}); got != "8" {
		t.Errorf("get shows revision %s", got)
	}
	if got := read(func(out *example.Pod) error {
		list := &example.PodList{}
		err := s.GetList(t.Context(), "/pods", everything(), list)
		out.ResourceVersion = list.ResourceVersion
		return err
	}); got != "8" {
		t.Errorf("list shows revision %s", got)
	}
	out := &example.Pod{}
	if err := s.Get(t.Context(), podKey("a", "x"), storage.GetOptions{ResourceVersion: "0"}, out); err != nil {
		t.Errorf("a read of any revision asks the writer: %v", err)
	}
}

func TestStoreWithoutItsWriter(t *testing.T) {
	l := newTestLog(t, Config{})
	mustAppend(t, l, put(5, "x"))
	s := newStoreOn(l, func(config *StoreConfig) {
		config.Fresh = func(context.Context) (uint64, error) { return 0, errors.New("connection refused") }
	})
	out := &example.Pod{}
	if err := s.Get(t.Context(), podKey("a", "x"), storage.GetOptions{}, out); err != nil || out.ResourceVersion != "5" {
		t.Errorf("got revision %s and the error %v", out.ResourceVersion, err)
	}
}

func TestStoreThatDoesNotCatchUp(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Now())
	s := newTestStore(t, func(config *StoreConfig) {
		config.Clock = fake
		config.Fresh = func(context.Context) (uint64, error) { return 8, nil }
	})
	done := make(chan error)
	go func() { done <- s.Get(t.Context(), podKey("a", "x"), storage.GetOptions{}, &example.Pod{}) }()
	polltest.Eventually(t, "waiting for the writer's revision", fake.HasWaiters)
	fake.Step(freshPatience)
	if err := <-done; !storage.IsTooLargeResourceVersion(err) {
		t.Errorf("got %v", err)
	}
}

// TestStoreOfAnotherType: what does not fit is an error, not a panic.
func TestStoreOfAnotherType(t *testing.T) {
	s := newTestStore(t)
	if err := s.Create(t.Context(), podKey("a", "x"), pod("a", "x"), nil, 0); err != nil {
		t.Fatal(err)
	}
	err := s.Get(t.Context(), podKey("a", "x"), storage.GetOptions{}, &example.PodList{})
	if err == nil || !strings.Contains(err.Error(), "the log holds *example.Pod") {
		t.Errorf("got %v", err)
	}
	if err := s.Create(t.Context(), podKey("a", "y"), &example.PodList{}, nil, 0); err == nil {
		t.Error("a list was stored as an object")
	}
}

// TestStoreDeletesWhatTheWriterKeeps: where the writer leaves the object, the
// client sees what is left of it.
func TestStoreDeletesWhatTheWriterKeeps(t *testing.T) {
	l := newTestLog(t, Config{})
	mustAppend(t, l, put(5, "x"), put(6, "y"))
	s := newStoreOn(l, func(config *StoreConfig) {
		config.Committer = newCommitter(l, writerFunc(func(_ context.Context, key string, current, wanted Object) (Object, error) {
			if wanted == nil && strings.HasSuffix(key, "/x") {
				wanted = current.DeepCopyObject().(Object)
				wanted.SetFinalizers([]string{"coder"})
			}
			return wanted, nil
		}))
	})
	for name, want := range map[string]string{"x": "coder", "y": ""} {
		out := &example.Pod{}
		if err := s.Delete(t.Context(), podKey("a", name), out, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(out.Finalizers, ","); got != want || out.Name != name || out.ResourceVersion < "7" {
			t.Errorf("deleting %s gave finalizers %q at revision %s", name, got, out.ResourceVersion)
		}
	}
}
