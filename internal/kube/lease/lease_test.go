package lease_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/coder-k8s/coder-k8s/internal/kube/lease"
)

const (
	duration = 15 * time.Second
	deadline = 10 * time.Second
	retry    = 2 * time.Second
)

// server is a Lease in a kube-apiserver, and the lock of a process with the identity "own".
type server struct {
	mu sync.Mutex
	// version increases with each change, and known is the one that the process has read.
	version, known int
	record         resourcelock.LeaderElectionRecord
	down           error
}

func (s *server) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, nil, s.down
	}
	s.known = s.version
	record := s.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (s *server) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down != nil:
		return s.down
	case s.known != s.version:
		return errors.New("the object has been modified")
	}
	s.version++
	s.known, s.record = s.version, record
	return nil
}

func (s *server) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return s.Update(ctx, record)
}
func (*server) RecordEvent(string) {}
func (*server) Identity() string   { return "own" }
func (*server) Describe() string   { return "coder-system/lease" }

// become changes the holder, as another process does.
func (s *server) become(holder string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	now := metav1.Now()
	s.record = resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: int(duration / time.Second), AcquireTime: now, RenewTime: now}
}

func (s *server) holder() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.HolderIdentity
}

func (s *server) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// election is a running elector.
type election struct {
	*server
	lock           *lease.Lock
	leads, stopped bool
	// cause is why the Lease was lost.
	cause error
	end   context.CancelFunc
}

func start(t *testing.T, s *server) *election {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	e := &election{server: s, end: func() { cancel(nil) }}
	e.lock = &lease.Lock{Interface: s, Duration: duration, Lost: func(err error) { e.cause = err; cancel(err) }}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, LeaseDuration: duration, RenewDeadline: deadline, RetryPeriod: retry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { e.leads = true },
			OnStoppedLeading: func() { e.stopped = true },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go elector.Run(ctx)
	return e
}

// wait lets a time pass.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
}

func (e *election) is(t *testing.T, leads, held, stopped bool, cause string) {
	t.Helper()
	got := ""
	if e.cause != nil {
		got = e.cause.Error()
	}
	if e.leads != leads || e.lock.Held() != held || e.stopped != stopped || got != cause {
		t.Fatalf("leads %t, held %t, stopped %t, lost %q; want %t, %t, %t, %q", e.leads, e.lock.Held(), e.stopped, got, leads, held, stopped, cause)
	}
}

// A process that does not lead waits until the Lease of the other has expired.
func TestFirstAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.become("other")
		e := start(t, s)
		wait(t, duration-retry)
		e.is(t, false, false, false, "")
		wait(t, 10*retry)
		e.is(t, true, true, false, "")
		e.end()
		synctest.Wait()
		e.is(t, true, false, true, "")
		if holder := s.holder(); holder != "" {
			t.Errorf("the Lease is not released: %q holds it", holder)
		}
	})
}

// A leader notices at its next renewal that another process holds the Lease, or held it meanwhile,
// and does not acquire or release it.
func TestAnotherHolder(t *testing.T) {
	for _, holder := range []string{"other", ""} {
		synctest.Test(t, func(t *testing.T) {
			e := start(t, &server{})
			wait(t, time.Second)
			e.is(t, true, true, false, "")
			e.become(holder)
			wait(t, retry)
			e.is(t, true, true, true, `leader election lost: Lease coder-system/lease is now held by "`+holder+`"`)
			if got := e.holder(); got != holder {
				t.Errorf("the Lease is held by %q, not by %q", got, holder)
			}
		})
	}
}

// A leader that is shut down before its next renewal does not release the Lease of another.
func TestReleaseOfAnotherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, &server{})
		wait(t, time.Second)
		e.become("other")
		e.end()
		synctest.Wait()
		if got := e.holder(); got != "other" {
			t.Errorf("the Lease is held by %q, not by the other process", got)
		}
	})
}

// While kube-apiserver fails, the Lease is lost when it has expired, not before.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		lost := 0
		lock := &lease.Lock{Interface: s, Duration: duration, Lost: func(error) { lost++ }}
		if err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "own"}); err != nil {
			t.Fatal(err)
		}
		down := errors.New("connection refused")
		s.fails(down)
		wait(t, duration-1)
		if _, _, err := lock.Get(t.Context()); !errors.Is(err, down) || lost > 0 || !lock.Held() {
			t.Fatalf("%v, lost %d, held %t before the Lease has expired", err, lost, lock.Held())
		}
		wait(t, 1)
		const want = "leader election lost: Lease coder-system/lease was last renewed 15s ago: connection refused"
		if _, _, err := lock.Get(t.Context()); err == nil || err.Error() != want || lost != 1 || lock.Held() {
			t.Fatalf("%v, lost %d, held %t after the Lease has expired", err, lost, lock.Held())
		}
		// After NotFound the elector would create the Lease.
		s.fails(apierrors.NewNotFound(coordinationv1.Resource("leases"), "lease"))
		if _, _, err := lock.Get(t.Context()); apierrors.IsNotFound(err) || lost != 2 {
			t.Fatalf("%v, lost %d after the Lease was deleted", err, lost)
		}
		// No other process has acquired it meanwhile.
		s.fails(nil)
		if record, _, err := lock.Get(t.Context()); err != nil || record.HolderIdentity != "own" || lost != 2 {
			t.Fatalf("%v, %v, lost %d", record, err, lost)
		}
	})
}
