package recordstest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// slowGets is a cluster whose reads of single records wait until they are released.
type slowGets struct {
	records.Cluster
	reads   atomic.Int32
	release chan struct{}
	// silent makes heartbeats fail.
	silent atomic.Bool
}

func (s *slowGets) Get(ctx context.Context, namespace, name, resourceVersion string) (*records.Record, error) {
	if namespace != heartbeatNamespace {
		if err := s.wait(ctx); err != nil {
			return nil, err
		}
	}
	return s.Cluster.Get(ctx, namespace, name, resourceVersion)
}

func (s *slowGets) Revision(ctx context.Context, namespace, name string) (uint64, error) {
	if err := s.wait(ctx); err != nil {
		return 0, err
	}
	return s.Cluster.Revision(ctx, namespace, name)
}

func (s *slowGets) wait(ctx context.Context) error {
	s.reads.Add(1)
	select {
	case <-s.release:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slowGets) Update(ctx context.Context, record *records.Record) error {
	if s.silent.Load() && record.Namespace == heartbeatNamespace {
		return errors.New("connection refused")
	}
	return s.Cluster.Update(ctx, record)
}

const heartbeatNamespace = "coder-system"

// TestManyGetsShareAHeartbeat has three gets that wait for their records. Further gets do not read
// theirs, but return what another replica wrote before they began. If the heartbeat fails, they read
// their records, too.
func TestManyGetsShareAHeartbeat(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	slow := &slowGets{Cluster: c.records, release: make(chan struct{})}
	over := cached(t, records.NewStore(records.Workspaces(slow, "slow", heartbeatNamespace, clock.RealClock{})))
	if err := c.b.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	get := func(key string) (string, error) {
		ws := &aggregationv1alpha1.CoderWorkspace{}
		err := over.Get(polltest.Context(t), key, storage.GetOptions{}, ws)
		return ws.Labels["a"], err
	}
	const few = 3
	ended := make(chan error, few+1)
	begin := func() {
		go func() {
			_, err := get(key)
			ended <- err
		}()
	}
	for range few {
		begin()
	}
	reading := func(n int32) func() bool { return func() bool { return slow.reads.Load() == n } }
	polltest.Eventually(t, "the first gets read their records", reading(few))

	for _, value := range strings.Fields("one two three") {
		if err := label(ctx, c.b, value); err != nil {
			t.Fatal(err)
		}
		if got, err := get(key); err != nil || got != value {
			t.Errorf("another replica wrote %q, and a get returns %q, %v", value, got, err)
		}
	}
	if _, err := get(key + "-missing"); !storage.IsNotFound(err) {
		t.Errorf("a get of an object that does not exist returns %v", err)
	}
	if n := slow.reads.Load(); n != few {
		t.Errorf("%d records were read, want %d", n, few)
	}

	slow.silent.Store(true)
	begin()
	polltest.Eventually(t, "without a heartbeat, a get reads its record", reading(few+1))
	close(slow.release)
	for range few + 1 {
		if err := <-ended; err != nil {
			t.Errorf("a get that read its record returns %v", err)
		}
	}
	c.records.Away(errors.New("connection refused"))
	if _, err := get(key); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("while kube-apiserver is away, a get returns %v", err)
	}
}
