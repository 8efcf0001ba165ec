package recordstest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// counting counts the requests of a replica.
type counting struct {
	cutOff
	gets int
}

func (c *counting) Get(ctx context.Context, namespace, name, resourceVersion string) (*records.Record, error) {
	c.mu.Lock()
	c.gets++
	c.mu.Unlock()
	return c.cutOff.Get(ctx, namespace, name, resourceVersion)
}

// TestEtcdIsRestored covers a restore of etcd from a backup while a replica runs. What the replica has in
// memory is newer than the cluster. The replica reports that, and no consistent read returns an
// outdated state. A write does not read the record again and again.
func TestEtcdIsRestored(t *testing.T) {
	for name, c := range map[string]struct {
		// skipped is the number of revisions that the restored cluster is ahead of the backup.
		skipped uint64
		use     func(ctx context.Context, s *records.Store, over storage.Interface) error
	}{
		"nobody uses it": {use: func(context.Context, *records.Store, storage.Interface) error { return nil }},
		"a consistent list": {use: func(ctx context.Context, _ *records.Store, over storage.Interface) error {
			return over.GetList(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &aggregationv1alpha1.CoderWorkspaceList{})
		}},
		"a write": {use: func(ctx context.Context, s *records.Store, _ storage.Interface) error { return label(ctx, s, "after") }},
		"a get": {use: func(ctx context.Context, _ *records.Store, over storage.Interface) error {
			return over.Get(ctx, key, storage.GetOptions{}, &aggregationv1alpha1.CoderWorkspace{})
		}},
		"higher revisions":                  {skipped: 1000, use: func(ctx context.Context, s *records.Store, _ storage.Interface) error { return label(ctx, s, "after") }},
		"higher revisions that nobody uses": {skipped: 1000, use: func(context.Context, *records.Store, storage.Interface) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			fixture := newCluster(t)
			mine := &counting{cutOff: cutOff{Cluster: fixture.records}}
			store := records.NewStore(records.Workspaces(mine, "mine", "coder-system", clock.RealClock{}))
			store.WriteWith(fixture.coder)
			over := cached(t, store)
			if err := store.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := store.GetCurrentResourceVersion(ctx); err != nil {
				t.Fatal(err)
			}
			restore := fixture.records.Backup()
			for _, value := range []string{"one", "two", "three"} {
				if err := label(ctx, store, value); err != nil {
					t.Fatal(err)
				}
				if _, err := store.GetCurrentResourceVersion(ctx); err != nil {
					t.Fatal(err)
				}
			}
			restored := make(chan error, 1)
			go func() { restored <- store.WaitRestored(ctx) }()
			restore(c.skipped)
			mine.mu.Lock()
			mine.gets = 0
			mine.mu.Unlock()
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if err := c.use(limited, store, over); err != nil && !apierrors.IsServiceUnavailable(err) {
				t.Errorf("the error is %v", err)
			}
			select {
			case err := <-restored:
				if err == nil || !strings.Contains(err.Error(), "restore of etcd") {
					t.Errorf("the reason is %v", err)
				}
			case <-time.After(30 * time.Second):
				t.Error("the replica does not notice it")
			}
			mine.mu.Lock()
			defer mine.mu.Unlock()
			if mine.gets > 20 {
				t.Errorf("it read %d times", mine.gets)
			}
		})
	}
}

// TestNotRestored checks that a replica goes on after its heartbeat was deleted, the watch was interrupted,
// or another replica wrote.
func TestNotRestored(t *testing.T) {
	ctx := t.Context()
	c := newCluster(t)
	mine := &cutOff{Cluster: c.records}
	store := records.NewStore(records.Workspaces(mine, "mine", "coder-system", clock.RealClock{}))
	over := cached(t, store)
	list := func() {
		t.Helper()
		if err := over.GetList(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &aggregationv1alpha1.CoderWorkspaceList{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.b.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	list()
	beat, err := c.records.Get(ctx, "coder-system", "heartbeat-mine", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.records.Delete(ctx, "coder-system", "heartbeat-mine", beat.Revision); err != nil {
		t.Fatal(err)
	}
	list()
	mine.cut(nil)
	if err := label(ctx, c.b, "one"); err != nil {
		t.Fatal(err)
	}
	list()
	mine.cut(nil)
	list()
	if err := restoredBy(store); err != nil {
		t.Error(err)
	}
}

// restoredBy returns the error of WaitRestored if it has one now.
func restoredBy(store *records.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	return store.WaitRestored(ctx)
}
