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

	"github.com/coder-k8s/coder-k8s/internal/kube/lease"
)

const (
	// leaseName is the Lease of the replica that mirrors.
	leaseName = "coder-k8s-aggregated-api"
	// leaseDuration is how long the Lease of a replica that died prevents others from mirroring.
	leaseDuration = 6 * time.Second
)

// leader elects the replica that mirrors.
type leader struct {
	lease resourcelock.Interface
	// lock holds the Lease in the current election.
	lock atomic.Pointer[lease.Lock]
	// duration is the duration of the Lease.
	duration time.Duration
	leading  atomic.Bool
	// running is held while run is called.
	running sync.Mutex
}

func newLeader(client kubernetes.Interface, namespace, identity string, duration time.Duration) *leader {
	if duration == 0 {
		duration = leaseDuration
	}
	return &leader{duration: duration, lease: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}}
}

// leads reports whether this replica mirrors.
func (l *leader) leads() bool { return l.leading.Load() }

// held reports whether this replica certainly holds the Lease.
func (l *leader) held() bool { return l.leading.Load() && l.lock.Load().Held() }

// Start takes part in the election until the context is canceled. It calls run while this replica leads.
func (l *leader) Start(ctx context.Context, run func(ctx context.Context)) error {
	for ctx.Err() == nil {
		election, lost := context.WithCancelCause(ctx)
		lock := &lease.Lock{Interface: l.lease, Duration: l.duration, Lost: lost}
		l.lock.Store(lock)
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, Name: leaseName, ReleaseOnCancel: true,
			LeaseDuration: l.duration, RenewDeadline: l.duration * 2 / 3, RetryPeriod: min(l.duration/4, 2*time.Second),
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) { l.lead(ctx, run) },
				OnStoppedLeading: func() { l.leading.Store(false) },
			},
		})
		if err != nil {
			lost(err)
			return fmt.Errorf("taking part in the election of the replica that mirrors: %w", err)
		}
		elector.Run(election)
		l.wait()
		lost(nil)
	}
	return nil
}

// wait waits until run returns. Until then, another replica can acquire the Lease.
func (l *leader) wait() {
	l.running.Lock()
	defer l.running.Unlock()
}

// lead calls run while this replica leads. The elector calls it in a goroutine, which may begin after the Lease is lost, and even
// after this replica has acquired it again. Only one call at a time changes leading.
func (l *leader) lead(ctx context.Context, run func(ctx context.Context)) {
	if ctx.Err() != nil {
		return
	}
	l.running.Lock()
	defer l.running.Unlock()
	if ctx.Err() != nil {
		return
	}
	l.leading.Store(true)
	defer l.leading.Store(false)
	run(ctx)
}
