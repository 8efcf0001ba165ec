package replication

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestFollowersShowWhatTheWriterDecides(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	writer, one, two := c.trio(options{})
	for i := range 50 {
		writer.mustWrite(t, fmt.Sprint("thing-", i%10), fmt.Sprint(i))
	}
	// Whoever is connected has a change before the writer itself: no waiting here.
	for _, n := range []*node{one, two} {
		if diff := cmp.Diff(story(writer.logs[things]), story(n.logs[things])); diff != "" {
			t.Errorf("replica %s differs from the writer (-writer +replica):\n%s", n.name, diff)
		}
	}
	if head := one.logs[others].Head(); head != writer.logs[others].Head() {
		t.Errorf("the head of another kind moved to %d, the writer's is %d", head, writer.logs[others].Head())
	}
}

func TestBoardIsCarried(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	writer, one, _ := c.trio(options{})
	want := []partition.Partition{{
		ControlPlane: types.NamespacedName{Namespace: "a", Name: "b"}, NamePrefix: "x-", State: partition.Stale, Seen: true,
		Since: metav1.Unix(1700000000, 0), Message: "Coder does not answer",
	}}
	writer.board.Replace(want)
	polltest.Eventually(t, "the board of a follower shows it", func() bool {
		got, known := one.board.All()
		return known && len(got) == 1
	})
	got, _ := one.board.All()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("board (-want +got):\n%s", diff)
	}
	late := c.start("late", options{})
	polltest.Eventually(t, "a replica that comes later shows it", func() bool {
		got, _ := late.board.All()
		return cmp.Equal(want, got)
	})
}

func TestWritesThroughAFollower(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	_, one, two := c.trio(options{})
	created := one.mustWrite(t, "x", "1")
	if got := one.value("x"); got != "1" {
		t.Errorf("the follower that wrote reads %q, not its own write", got)
	}
	if created.Object.GetResourceVersion() != fmt.Sprint(created.Revision) {
		t.Errorf("the answer has resourceVersion %s and revision %d", created.Object.GetResourceVersion(), created.Revision)
	}
	if diff := cmp.Diff(created.Object, one.logs[things].Get(key("x")).Object); diff != "" {
		t.Errorf("answer and log differ (-answer +log):\n%s", diff)
	}
	committer := two.Committer(things)
	_, err := committer.Commit(t.Context(), objectlog.Commit{Key: key("x"), Expect: created.Revision - 1, Object: thing("x", "2")})
	if !errors.Is(err, objectlog.ErrChanged) {
		t.Errorf("a write with an old revision gives %v, want ErrChanged", err)
	}
	if entry, err := committer.Commit(t.Context(), objectlog.Commit{Key: key("x"), Expect: created.Revision}); err != nil || entry != nil {
		t.Errorf("a removal gives %v, %v", entry, err)
	}
	if got := two.value("x"); got != "" {
		t.Errorf("after its removal the follower still shows %q", got)
	}
}

// refuser is a system of record that refuses.
type refuser struct{ err error }

func (r refuser) Write(context.Context, string, objectlog.Object, objectlog.Object) (objectlog.Object, error) {
	return nil, r.err
}

func TestRefusalsComeThrough(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	refused := apierrors.NewConflict(schemaOf(things), "x", errors.New("a build is under way"))
	_, one, _ := c.trio(options{writer: refuser{refused}})
	_, err := one.write(t.Context(), things, "x", "1")
	if diff := cmp.Diff(refused.Status(), statusOf(t, err)); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func statusOf(t *testing.T, err error) metav1.Status {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("%v is no API status", err)
	}
	return status.Status()
}

func TestFreshIsTheWritersHead(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	writer, one, _ := c.trio(options{})
	entry := writer.mustWrite(t, "x", "1")
	for _, n := range []*node{writer, one} {
		head, err := n.Fresh(things)(t.Context())
		if err != nil || head != entry.Revision {
			t.Errorf("at %s: %d, %v, want %d", n.name, head, err, entry.Revision)
		}
	}
}

func TestNoWriterIsServiceUnavailable(t *testing.T) {
	t.Parallel()
	timing := patient()
	timing.fresh = 300 * time.Millisecond
	c := newCluster(t, timing)
	writer, one, two := c.trio(options{})
	writer.mustWrite(t, "x", "1")
	two.network.set(true)
	writer.kill()
	// Until the Lease runs out nobody is the writer, and it does not in this test.
	_, err := one.write(t.Context(), things, "x", "2")
	if status := statusOf(t, err); status.Code != 503 || status.Details == nil || status.Details.RetryAfterSeconds != 1 {
		t.Errorf("status %+v, want 503 with Retry-After 1", status)
	}
	begin := time.Now()
	if _, err := one.Fresh(things)(t.Context()); err == nil {
		t.Error("Fresh gives a head without a writer")
	} else if time.Since(begin) > patience {
		t.Errorf("Fresh took %s to fail", time.Since(begin))
	}
	if err := one.Ready(); err != nil {
		t.Errorf("without a writer the follower is not ready: %v", err)
	}
	if got := one.value("x"); got != "1" {
		t.Errorf("without a writer the follower shows %q", got)
	}
}

func TestReadyOnceTheLogIsThere(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	n := c.start("a", options{cut: true})
	if err := n.Ready(); err == nil {
		t.Error("a replica that nobody told anything is ready")
	}
	n.network.set(false)
	polltest.Eventually(t, "it is ready", func() bool { return n.Ready() == nil })
}

func TestALateReplicaHasTheHistory(t *testing.T) {
	t.Parallel()
	c := newCluster(t, patient())
	writer := c.start("a", options{})
	writerOf(t, writer)
	first := writer.mustWrite(t, "x", "0")
	for i := 1; i < 1200; i++ {
		writer.mustWrite(t, fmt.Sprint("x", i%40), fmt.Sprint(i))
	}
	late := c.start("b", options{})
	writerOf(t, writer, late)
	polltest.Eventually(t, "it is as far", func() bool { return late.logs[things].Head() == writer.logs[things].Head() })
	want, _ := writer.logs[things].Since(first.Revision, 5000)
	got, ok := late.logs[things].Since(first.Revision, 5000)
	if !ok || len(got) != len(want) {
		t.Fatalf("the late replica has %d events (%t), the writer %d", len(got), ok, len(want))
	}
	for i := range want {
		if want[i].Revision != got[i].Revision || text(want[i].Object) != text(got[i].Object) || !want[i].Time.Equal(got[i].Time) {
			t.Errorf("event %d is %v, want %v", i, got[i], want[i])
		}
	}
	if diff := cmp.Diff(story(writer.logs[things]), story(late.logs[things])); diff != "" {
		t.Errorf("logs (-writer +late):\n%s", diff)
	}
}
