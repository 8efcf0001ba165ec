package apiserver

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// leaseName is the Lease of the replica that mirrors.
	leaseName = "coder-k8s-aggregated-api"
	// leaseDuration is how long the Lease of a replica that died prevents others from mirroring.
	leaseDuration = 6 * time.Second
)

// leader elects the replica that mirrors.
type leader struct {
	lock *timedLock
	// duration is the duration of the Lease.
	duration time.Duration
	leading  atomic.Bool
	run      func(ctx context.Context)
}

func newLeader(client kubernetes.Interface, namespace, identity string, duration time.Duration, run func(ctx context.Context)) *leader {
	if duration == 0 {
		duration = leaseDuration
	}
	return &leader{duration: duration, run: run, lock: &timedLock{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}}}
}

// held reports whether this replica certainly holds the Lease: it has renewed it less than the
// Lease's duration ago. The clock also advances while the process is stopped.
func (l *leader) held() bool { return l.leading.Load() && time.Since(l.lock.last()) < l.duration }

// Start takes part in the election until the context is canceled.
func (l *leader) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		var running sync.WaitGroup
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: l.lock, Name: leaseName, ReleaseOnCancel: true,
			LeaseDuration: l.duration, RenewDeadline: l.duration * 2 / 3, RetryPeriod: min(l.duration/4, 2*time.Second),
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					running.Add(1)
					defer running.Done()
					l.leading.Store(true)
					defer l.leading.Store(false)
					l.run(ctx)
				},
				OnStoppedLeading: func() { l.leading.Store(false) },
			},
		})
		if err != nil {
			return fmt.Errorf("taking part in the election of the replica that mirrors: %w", err)
		}
		elector.Run(ctx)
		running.Wait()
	}
	return nil
}

// timedLock records when the Lease was last certainly renewed.
type timedLock struct {
	resourcelock.Interface
	mu      sync.Mutex
	renewed time.Time
}

func (l *timedLock) last() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed
}

func (l *timedLock) note(began time.Time, err error) error {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewed = began
	}
	return err
}

// Create implements resourcelock.Interface.
func (l *timedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	return l.note(began, l.Interface.Create(ctx, record))
}

// Update implements resourcelock.Interface.
func (l *timedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	return l.note(began, l.Interface.Update(ctx, record))
}
