package replication

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// electionLease is what the replicas elect the writer by.
const electionLease = "coder-k8s-aggregated-api"

// writer is who holds the Lease, as it was last seen.
type writer struct {
	identity    string
	address     string
	fingerprint string
	// own says that it is this replica.
	own bool
}

// lock is the Lease of the writer for client-go's election. With each renewal it
// writes where the writer is reached and up to where revisions are reserved.
type lock struct {
	leases      coordinationclient.LeaseInterface
	identity    string
	address     string
	fingerprint string
	mandate     *mandate
	timing      timing

	// lease is as last read or written. Only the election's goroutine uses it.
	lease *coordinationv1.Lease

	mu      sync.Mutex
	current writer
	// expires is when, as far as seen from here, the holder loses the Lease.
	expires time.Time
	renewed metav1.MicroTime
	changed chan struct{}
}

var _ resourcelock.Interface = (*lock)(nil)

// Get reads the Lease.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timing.request)
	defer cancel()
	lease, err := l.leases.Get(ctx, electionLease, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	l.lease = lease
	l.observe(lease)
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	raw, err := json.Marshal(record)
	return record, raw, err
}

// Create makes the Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: electionLease, Labels: map[string]string{labelManagedBy: "coder-k8s"},
	}}
	return l.write(ctx, lease, record, func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		return l.leases.Create(ctx, lease, metav1.CreateOptions{})
	})
}

// Update renews, acquires or releases it.
//
// client-go releases a Lease that it believes to hold after it has read it once more,
// and does not look at what it read. So a replica that another has replaced meanwhile
// would take the Lease from that one, which is deciding changes: it has nothing to
// release.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.lease == nil {
		return errors.New("the Lease was not read yet")
	}
	if record.HolderIdentity != l.identity && !l.holds(l.lease) {
		l.mandate.revoke()
		return nil
	}
	return l.write(ctx, l.lease.DeepCopy(), record, func(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
		return l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	})
}

// holds says whether a Lease names this replica.
func (l *lock) holds(lease *coordinationv1.Lease) bool {
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == l.identity
}

func (l *lock) write(
	ctx context.Context, lease *coordinationv1.Lease, record resourcelock.LeaderElectionRecord,
	send func(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error),
) error {
	ctx, cancel := context.WithTimeout(ctx, l.timing.request)
	defer cancel()
	claim := l.mandate.claim(lease.Annotations, record.HolderIdentity != l.identity)
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotationAddress], lease.Annotations[annotationFingerprint] = l.address, l.fingerprint
	lease.Annotations[annotationTerm] = strconv.FormatUint(claim.term, 10)
	lease.Annotations[annotationCeiling] = strconv.FormatUint(claim.ceiling, 10)
	lease.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	written, err := send(ctx, lease)
	if err != nil {
		return err
	}
	l.lease = written
	l.mandate.granted(claim)
	l.observe(written)
	return nil
}

// observe takes note of who is the writer.
func (l *lock) observe(lease *coordinationv1.Lease) {
	seen := writer{address: lease.Annotations[annotationAddress], fingerprint: lease.Annotations[annotationFingerprint]}
	if lease.Spec.HolderIdentity != nil {
		seen.identity = *lease.Spec.HolderIdentity
	}
	seen.own = l.holds(lease)
	l.mu.Lock()
	defer l.mu.Unlock()
	if renewed := lease.Spec.RenewTime; renewed != nil && !renewed.Equal(&l.renewed) {
		l.renewed = *renewed
		l.expires = time.Now().Add(l.timing.lease)
	}
	if seen == l.current {
		return
	}
	l.current = seen
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// seen gives who is the writer, and a channel that is closed when that changes.
func (l *lock) seen() (current writer, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.current, l.changed
}

// expiry is when the Lease can be taken over, unless it is renewed.
func (l *lock) expiry() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// RecordEvent does nothing: the log and a metric tell who is the writer.
func (l *lock) RecordEvent(string) {}

// Identity is this process's.
func (l *lock) Identity() string { return l.identity }

// Describe names the Lease.
func (l *lock) Describe() string { return electionLease }
