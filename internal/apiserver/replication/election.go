package replication

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection"
)

// election runs for the Lease again and again.
type election struct {
	elector *leaderelection.LeaderElector
	lock    *lock

	mu sync.Mutex
	// again ends the present attempt.
	again context.CancelFunc
	// alarm looks again when the writer's Lease runs out.
	alarm *time.Timer
}

func newElection(lock *lock, timing timing, lead func(context.Context), ended func()) (*election, error) {
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          electionLease,
		Lock:          lock,
		LeaseDuration: timing.lease,
		RenewDeadline: timing.renew,
		RetryPeriod:   timing.retry,
		// What was not decided is given back at once.
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: ended},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the election of the writer: %w", err)
	}
	return &election{elector: elector, lock: lock}, nil
}

// run ends with the context, after the Lease was released.
func (e *election) run(ctx context.Context) {
	for ctx.Err() == nil {
		attempt, cancel := context.WithCancel(ctx)
		e.mu.Lock()
		e.again = cancel
		e.mu.Unlock()
		e.elector.Run(attempt)
		cancel()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alarm != nil {
		e.alarm.Stop()
	}
}

// look makes a replica that is not the writer look at the Lease now instead of at
// the next turn.
func (e *election) look() {
	if _, held := e.lock.mandate.holds(); held {
		return
	}
	e.stepDown()
}

// stepDown ends the present attempt. The Lease is released where it is held.
func (e *election) stepDown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.again != nil {
		e.again()
	}
}

// lookAtExpiry looks again as soon as the Lease can be taken over.
func (e *election) lookAtExpiry() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alarm != nil {
		e.alarm.Stop()
	}
	// A moment later, so that it has run out for sure.
	e.alarm = time.AfterFunc(time.Until(e.lock.expiry())+20*time.Millisecond, e.look)
}
