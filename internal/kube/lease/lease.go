package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Lock is a resourcelock.Interface for one elector.
type Lock struct {
	resourcelock.Interface
	Duration time.Duration
	// Lost is called with the reason when the Lease is lost. It may be called again.
	Lost func(error)

	mu sync.Mutex
	// renewed is when this process last certainly renewed the Lease. It is zero if this process
	// has not acquired the Lease, or has released it.
	renewed time.Time
}

// Held reports whether this process certainly holds the Lease: it has renewed it less than the
// Lease's duration ago. The clock also advances while the process is stopped.
func (l *Lock) Held() bool { return time.Since(l.last()) < l.Duration }

func (l *Lock) last() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed
}

// Get implements resourcelock.Interface. If the Lease is lost, it returns an error, so that the
// elector neither acquires nor releases it.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	renewed := l.last()
	switch {
	case renewed.IsZero():
		return record, raw, err
	case err == nil && record.HolderIdentity != l.Identity():
		err = fmt.Errorf("leader election lost: Lease %s is now held by %q", l.Describe(), record.HolderIdentity)
	case err != nil && !l.Held():
		// The cause is only text: after NotFound, the elector would create the Lease.
		err = fmt.Errorf("leader election lost: Lease %s was last renewed %s ago: %s", l.Describe(), time.Since(renewed).Round(time.Second), err.Error())
	default:
		return record, raw, err
	}
	l.Lost(err)
	return nil, nil, err
}

// Create implements resourcelock.Interface.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *Lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	began := time.Now()
	if err := write(ctx, record); err != nil {
		return err
	}
	if record.HolderIdentity != l.Identity() {
		began = time.Time{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = began
	return nil
}
