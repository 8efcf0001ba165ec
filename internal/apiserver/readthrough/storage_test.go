package readthrough

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

const (
	prefix = "/aggregation.coder.com/coderworkspaces"
	key    = prefix + "/coder/coder.ada.dev"
)

// memory is a backend of one object.
type memory struct {
	mu               sync.Mutex
	object           *aggregationv1alpha1.CoderWorkspace
	creates, updates int
	deletes          int
}

func newMemory() *memory {
	m := &memory{object: &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "coder.ada.dev", UID: "1", ResourceVersion: "1"},
	}}
	return m
}

func (m *memory) Get(_ context.Context, _, name string) (*aggregationv1alpha1.CoderWorkspace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.object == nil || m.object.Name != name {
		return nil, apierrors.NewNotFound(aggregationv1alpha1.Resource("coderworkspaces"), name)
	}
	return m.object.DeepCopy(), nil
}

func (m *memory) List(context.Context, string) ([]*aggregationv1alpha1.CoderWorkspace, error) {
	return []*aggregationv1alpha1.CoderWorkspace{m.object.DeepCopy()}, nil
}

func (m *memory) Create(_ context.Context, obj *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	m.creates++
	return obj, nil
}

func (m *memory) Update(_ context.Context, _, wanted *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.updates++
	m.object = wanted.DeepCopy()
	m.bump()
	return m.object.DeepCopy(), nil
}

func (m *memory) Delete(_ context.Context, current *aggregationv1alpha1.CoderWorkspace) (*aggregationv1alpha1.CoderWorkspace, error) {
	m.deletes++
	return current, nil
}

func (m *memory) bump() {
	n, _ := strconv.Atoi(m.object.ResourceVersion)
	m.object.ResourceVersion = strconv.Itoa(n + 1)
}

// view says what is known of namespaces.
type view struct {
	cached, now bool
	err         error
}

func (v *view) Released(string) bool                              { return v.cached }
func (v *view) ReleasedNow(context.Context, string) (bool, error) { return v.now, v.err }

func newStorage(m *memory, v *view) *Storage[*aggregationv1alpha1.CoderWorkspace] {
	return New[*aggregationv1alpha1.CoderWorkspace](m, v, aggregationv1alpha1.Resource("coderworkspaces"), prefix,
		func() *aggregationv1alpha1.CoderWorkspace { return &aggregationv1alpha1.CoderWorkspace{} },
		clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)))
}

func change(millis int64) storage.UpdateFunc {
	return func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		ws := input.(*aggregationv1alpha1.CoderWorkspace)
		ws.Spec.TTLMillis = ptr.To(ptr.Deref(ws.Spec.TTLMillis, 0) + millis)
		return ws, nil, nil
	}
}

func TestDeletionAsksKubeAPIServer(t *testing.T) {
	for name, c := range map[string]struct {
		view    view
		deletes int
	}{
		"namespace lives":                     {view{}, 1},
		"released, and the cache is late":     {view{now: true}, 0},
		"nobody knows whether it is released": {view{err: errors.New("down")}, 0},
		"released, and the cache knows":       {view{cached: true, now: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			s := newStorage(m, &c.view)
			out := &aggregationv1alpha1.CoderWorkspace{}
			err := s.Delete(t.Context(), key, out, &storage.Preconditions{}, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
			if m.deletes != c.deletes || (err == nil) != (c.deletes == 1) {
				t.Errorf("%d deletions, %v", m.deletes, err)
			}
			// The library deletes what has finalizers by an update.
			m = newMemory()
			s = newStorage(m, &c.view)
			err = s.GuaranteedUpdate(t.Context(), key, out, false, nil, func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				ws := input.(*aggregationv1alpha1.CoderWorkspace)
				ws.DeletionTimestamp = ptr.To(metav1.Now())
				return ws, nil, nil
			}, nil)
			if m.deletes != c.deletes || m.updates != 0 || (err == nil) != (c.deletes == 1) {
				t.Errorf("by update: %d deletions, %d updates, %v", m.deletes, m.updates, err)
			}
		})
	}
}

func TestUpdateStartsOverWhenTheObjectChanges(t *testing.T) {
	m := newMemory()
	s := newStorage(m, &view{})
	interfered := false
	out := &aggregationv1alpha1.CoderWorkspace{}
	err := s.GuaranteedUpdate(t.Context(), key, out, false, nil, func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if !interfered {
			interfered = true
			m.mu.Lock()
			m.object.Spec.TTLMillis = ptr.To[int64](60_000)
			m.bump()
			m.mu.Unlock()
		}
		return change(1)(input, meta)
	}, nil)
	if err != nil || m.updates != 1 || ptr.Deref(out.Spec.TTLMillis, 0) != 60_001 {
		t.Errorf("%v, %d updates, %v", err, m.updates, out.Spec.TTLMillis)
	}
}

func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	m := newMemory()
	s := newStorage(m, &view{})
	var group sync.WaitGroup
	var mu sync.Mutex
	succeeded := int64(0)
	for range 8 {
		group.Go(func() {
			out := &aggregationv1alpha1.CoderWorkspace{}
			if err := s.GuaranteedUpdate(t.Context(), key, out, false, nil, change(1), nil); err == nil {
				mu.Lock()
				succeeded++
				mu.Unlock()
			} else if !apierrors.IsConflict(err) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := ptr.Deref(m.object.Spec.TTLMillis, 0); got != succeeded || got == 0 {
		t.Errorf("%d updates succeeded, and %d are there", succeeded, got)
	}
}

func TestNothingToWrite(t *testing.T) {
	m := newMemory()
	s := newStorage(m, &view{})
	out := &aggregationv1alpha1.CoderWorkspace{}
	err := s.GuaranteedUpdate(t.Context(), key, out, false, nil, func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		ws := input.(*aggregationv1alpha1.CoderWorkspace)
		ws.Kind, ws.Labels = "CoderWorkspace", map[string]string{}
		return ws, nil, nil
	}, nil)
	if err != nil || m.updates != 0 || out.Name == "" {
		t.Errorf("%v, %d updates, %v", err, m.updates, out)
	}
}

func TestReleasedIsOutOfView(t *testing.T) {
	s := newStorage(newMemory(), &view{cached: true})
	out := &aggregationv1alpha1.CoderWorkspace{}
	if err := s.Get(t.Context(), key, storage.GetOptions{}, out); !storage.IsNotFound(err) {
		t.Errorf("GET: %v", err)
	}
	for _, k := range []string{prefix, prefix + "/coder"} {
		list := &aggregationv1alpha1.CoderWorkspaceList{}
		if err := s.GetList(t.Context(), k, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil || len(list.Items) != 0 {
			t.Errorf("LIST %s: %d items, %v", k, len(list.Items), err)
		}
	}
}
