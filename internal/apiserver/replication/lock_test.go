package replication

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

// newLock makes the lock of one replica at a Lease that many share.
func newLock(api *leases, identity string, now time.Time) *lock {
	client := &fake.Clientset{}
	client.AddReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := api.react(action)
		return true, object, err
	})
	numbers := &revisions{clock: clocktesting.NewFakePassiveClock(now)}
	return &lock{
		leases: client.CoordinationV1().Leases(namespace), identity: identity, timing: timing{}.withDefaults(0),
		mandate: &mandate{numbers: numbers, reserve: time.Minute, validity: time.Hour, heads: func() uint64 { return 0 }},
	}
}

// acquire does what client-go does for a Lease that has run out, and release what it
// does when it ends: it reads, and looks at nothing of what it read.
func (l *lock) acquire(t *testing.T) {
	t.Helper()
	record := resourcelock.LeaderElectionRecord{HolderIdentity: l.identity, LeaseDurationSeconds: 4}
	if _, _, err := l.Get(t.Context()); err != nil {
		if err := l.Create(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := l.Update(t.Context(), record); err != nil {
		t.Fatal(err)
	}
}

func (l *lock) release(ctx context.Context) error {
	if _, _, err := l.Get(ctx); err != nil {
		return err
	}
	return l.Update(ctx, resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1})
}

func TestAReplicaThatWasReplacedReleasesNothing(t *testing.T) {
	t.Parallel()
	api := &leases{items: map[string]*coordinationv1.Lease{}}
	now := time.UnixMicro(1_700_000_000_000_000)
	former, present := newLock(api, "former", now), newLock(api, "present", now)
	former.acquire(t)
	present.acquire(t)
	before := api.get(electionLease)
	if err := former.release(t.Context()); err != nil {
		t.Errorf("releasing what another has: %v", err)
	}
	if diff := cmp.Diff(before, api.get(electionLease)); diff != "" {
		t.Errorf("it changed the Lease of the other one (-before +after):\n%s", diff)
	}
	if _, held := former.mandate.holds(); held {
		t.Error("it may still decide something")
	}
	if err := present.release(t.Context()); err != nil || present.holds(api.get(electionLease)) {
		t.Errorf("the present writer cannot release: %v", err)
	}
}

// Whoever comes next begins above what the one before the releasing one reserved.
func TestALeaseWhoseAnswerWasLostGivesNothingBack(t *testing.T) {
	t.Parallel()
	api := &leases{items: map[string]*coordinationv1.Lease{}}
	now := time.UnixMicro(1_700_000_000_000_000)
	dead, unlucky, next := newLock(api, "dead", now), newLock(api, "unlucky", now), newLock(api, "next", now)
	dead.acquire(t)
	reserved := parseRevision(api.get(electionLease).Annotations[annotationCeiling])
	// It has the Lease, and does not know it.
	unlucky.acquire(t)
	unlucky.mandate.revoke()
	unlucky.mandate.numbers.last, unlucky.mandate.term = 0, 0
	if err := unlucky.release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next.acquire(t)
	if term, _ := next.mandate.holds(); term <= reserved {
		t.Errorf("the next writer begins at %d, and up to %d may have been used", term, reserved)
	}
}
