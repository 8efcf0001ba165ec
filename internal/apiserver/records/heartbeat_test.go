package records

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// register is a Cluster of one record. As in kube-apiserver, an update without changes writes
// nothing.
type register struct {
	Cluster
	record Record
	// gone is true if the record does not exist; the newest revision is then that of the record.
	gone bool
}

func (r *register) Create(_ context.Context, record *Record) error {
	record.Revision = r.record.Revision + 1
	r.record, r.gone = *record, false
	return nil
}

func (r *register) Update(_ context.Context, record *Record) error {
	if r.gone {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "records"}, record.Name)
	}
	if record.State != r.record.State {
		record.Revision = r.record.Revision + 1
		r.record = *record
	}
	record.Revision = r.record.Revision
	return nil
}

// TestHeartbeatWhenTheClockJumps checks that each heartbeat gets a new revision, also if the clock
// jumps by an hour, or stands still, or if an earlier process of the same name wrote the same text.
// Otherwise a consistent read could miss writes that were acknowledged before.
func TestHeartbeatWhenTheClockJumps(t *testing.T) {
	cluster, start := &register{}, time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	c := clocktesting.NewFakePassiveClock(start)
	h := newHeartbeat(cluster, c, heartbeats, replicaA)
	last := uint64(0)
	beat := func(what string, at time.Time) {
		t.Helper()
		c.SetTime(at)
		revision, err := h.now(t.Context())
		if err != nil || revision <= last {
			t.Fatalf("%s: the revision is %d after %d: %v", what, revision, last, err)
		}
		last = revision
	}
	beat("at first", start)
	beat("a clock that stands still", start)
	beat("an hour forward", start.Add(time.Hour))
	beat("an hour back", start)
	beat("two hours back", start.Add(-time.Hour))

	again := newHeartbeat(cluster, c, heartbeats, replicaA)
	again.record.Revision = last
	h = again
	cluster.record.State = "2026-05-04T12:00:00Z 1"
	beat("the text of an earlier process", start)
}

// TestAHeartbeatThatIsGone checks that a replica whose heartbeat is gone ends, although all revisions are greater than
// before: etcd was restored from a backup without that heartbeat, and much was written since. If somebody has
// deleted the heartbeat, the watch has delivered that, and the replica goes on.
func TestAHeartbeatThatIsGone(t *testing.T) {
	for name, deleted := range map[string]bool{"restored": false, "deleted": true} {
		t.Run(name, func(t *testing.T) {
			cluster := &register{}
			h := newHeartbeat(cluster, clocktesting.NewFakePassiveClock(time.Now()), heartbeats, replicaA)
			if _, err := h.now(t.Context()); err != nil {
				t.Fatal(err)
			}
			written := cluster.record
			h.shown(&written)
			cluster.gone, cluster.record = true, Record{Revision: 100}
			if deleted {
				// The watch is later than the deletion.
				time.AfterFunc(100*time.Millisecond, func() {
					shown := written
					shown.Revision = 90
					h.shown(&shown)
				})
			}
			revision, err := h.now(t.Context())
			if deleted {
				if err != nil || revision <= 100 {
					t.Errorf("the revision is %d: %v", revision, err)
				}
				return
			}
			select {
			case cause := <-h.restored:
				if !errors.Is(cause, errRestored) || !strings.Contains(cause.Error(), "does not exist") {
					t.Error(cause)
				}
			default:
				t.Errorf("the replica goes on at revision %d: %v", revision, err)
			}
		})
	}
}

// TestAHeartbeatOfAnEarlierProcessThatIsGone checks that a process goes on if a heartbeat that it found, and did not
// write, is deleted before it writes it: the earlier process of the same name deletes it when it ends.
func TestAHeartbeatOfAnEarlierProcessThatIsGone(t *testing.T) {
	h := newHeartbeat(&handover{}, clock.RealClock{}, heartbeats, replicaA)
	if revision, err := h.now(t.Context()); err != nil || revision != 8 {
		t.Errorf("the revision is %d: %v", revision, err)
	}
}

// handover is a Cluster with the heartbeat of an earlier process, which is deleted after the first read.
type handover struct {
	Cluster
	gone bool
}

func (e *handover) Create(_ context.Context, record *Record) error {
	if !e.gone {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "records"}, record.Name)
	}
	record.Revision = 8
	return nil
}

func (e *handover) Get(_ context.Context, namespace, name, _ string) (*Record, error) {
	e.gone = true
	return &Record{Namespace: namespace, Name: name, Revision: 7}, nil
}

func (e *handover) Update(_ context.Context, record *Record) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "records"}, record.Name)
}

// partner is a Cluster with the heartbeat of another replica.
type partner struct {
	Cluster
	broken, deleted bool
}

func (p *partner) List(context.Context, Query) (*List, error) {
	if p.broken {
		return nil, errors.New("out of order")
	}
	return &List{Records: []Record{{Namespace: heartbeats, Name: heartbeatPrefix + "other", Revision: 7}}}, nil
}

func (p *partner) Delete(context.Context, string, string, uint64) error {
	p.deleted = true
	return nil
}

// TestSweepAfterAnError checks that the heartbeat of a stopped replica is removed in time, also if
// it could not be listed in the meantime.
func TestSweepAfterAnError(t *testing.T) {
	cluster, now := &partner{}, time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	h := newHeartbeat(cluster, clock.RealClock{}, heartbeats, replicaA)
	for _, c := range []struct {
		after           time.Duration
		broken, deleted bool
	}{{0, true, false}, {0, false, false}, {silentFor / 2, true, false}, {silentFor, false, true}} {
		cluster.broken = c.broken
		if err := h.sweep(t.Context(), now.Add(c.after)); (err != nil) != c.broken {
			t.Fatal(err)
		}
		if cluster.deleted != c.deleted {
			t.Errorf("after %s it is deleted: %t, want %t", c.after, cluster.deleted, c.deleted)
		}
	}
}

// TestClaimsAreMonotonic checks that the times from which this replica measures how old a record and
// a claim are have a monotonic part. Otherwise a claim would be treated as abandoned when the clock
// jumps forward, and its change could be sent to Coder twice.
func TestClaimsAreMonotonic(t *testing.T) {
	table := NewTable(clock.RealClock{})
	h := &held{key: "a", revision: 1, kept: &metadata.Record{}}
	h.spec.Claim = "other/1"
	table.see(h)
	// A later change that keeps the claim keeps its time.
	table.see(&held{key: "a", revision: 2, spec: h.spec, kept: &metadata.Record{}})
	h = table.get("a")
	for what, at := range map[string]time.Time{"the claim": h.claimed, "the record": h.born, "the kept metadata": h.kept.DeepCopy().CreatedAt.Time} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("the time of %s has no monotonic part: %s", what, at)
		}
	}
	if busy, _ := table.foreign("a", func(string) bool { return false }); !busy {
		t.Error("another replica's claim is not respected")
	}
}

// TestIsHeartbeat checks that the records of all objects are not taken for heartbeats, also while an object
// is being created.
func TestIsHeartbeat(t *testing.T) {
	for _, c := range []struct {
		name string
		spec spec
		want bool
	}{
		{heartbeatPrefix + replicaA, spec{State: "2026-05-04T12:00:00Z 1"}, true},
		{heartbeatPrefix + replicaA, spec{State: "2026-05-04T12:00:00Z"}, true},
		{heartbeatPrefix + "bob", spec{State: "active", ID: "1", Object: "{}"}, false},
		{heartbeatPrefix + "bob", spec{Claim: "a/1"}, false},
		{heartbeatPrefix + "bob", spec{Kept: "{}"}, false},
		{heartbeatPrefix + "bob", spec{ControlPlane: "prod"}, false},
		{heartbeatPrefix + "bob", spec{Pending: "create"}, false},
		{"coder." + heartbeatPrefix + "bob", spec{State: "active"}, false},
		{heartbeatPrefix + "org.bob", spec{State: "active"}, false},
	} {
		if got := isHeartbeat(&Record{Name: c.name, RecordSpec: c.spec}); got != c.want {
			t.Errorf("the record %s with %+v is a heartbeat: %t, want %t", c.name, c.spec, got, c.want)
		}
	}
}
