package objectlog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// follower is the replication of a test: it holds each batch until it is told what
// becomes of it.
type follower struct {
	batches chan []Change
	results chan error
}

func newFollower() *follower {
	return &follower{batches: make(chan []Change), results: make(chan error)}
}

func (f *follower) replicate(_ context.Context, changes []Change) error {
	f.batches <- changes
	return <-f.results
}

func proposal(name string, expect uint64) Proposal {
	return Proposal{Key: podKey("a", name), Expect: expect, Object: pod("a", name)}
}

func (s *Sequencer) waits() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.waiting)
}

// TestSequencerCommitsGroups has proposals come while a batch is under way: they
// go as one.
func TestSequencerCommitsGroups(t *testing.T) {
	l, f := newTestLog(t, Config{}), newFollower()
	s := NewSequencer(l, counter{}, f.replicate, clock.RealClock{})
	results := make(chan error, 21)
	propose := func(name string) {
		_, err := s.Propose(t.Context(), proposal(name, 0))
		results <- err
	}
	go propose("first")
	if first := <-f.batches; len(first) != 1 || l.Get(podKey("a", "first")) != nil {
		t.Fatalf("%d changes at first; what followers do not have is in the log: %v", len(first), l.Get(podKey("a", "first")))
	}
	for i := range 20 {
		go propose(fmt.Sprint("p", i))
	}
	polltest.Eventually(t, "twenty proposals waiting", func() bool { return s.waits() == 20 })
	f.results <- nil
	batch := <-f.batches
	f.results <- nil
	for range 21 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if len(batch) != 20 || l.Head() != 22 {
		t.Errorf("the second batch has %d changes, the head is %d", len(batch), l.Head())
	}
}

func TestSequencerAppendsNothingThatFollowersLack(t *testing.T) {
	l, f := newTestLog(t, Config{}), newFollower()
	s := NewSequencer(l, counter{}, f.replicate, clock.RealClock{})
	done := make(chan error)
	go func() {
		_, err := s.Propose(t.Context(), proposal("x", 0))
		done <- err
	}()
	<-f.batches
	f.results <- errors.New("replica 2 does not answer")
	err := <-done
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !ok || seconds != 1 {
		t.Errorf("the error is %v", err)
	}
	if l.Head() != 1 || l.Len() != 0 {
		t.Errorf("the log has head %d and %d objects", l.Head(), l.Len())
	}
}

func TestSequencerRefusesWhatChanged(t *testing.T) {
	l := newTestLog(t, Config{})
	mustAppend(t, l, put(5, "old"))
	s := NewSequencer(l, counter{}, nil, clock.RealClock{})
	entries, err := s.Propose(t.Context(),
		proposal("old", 4), // It has 5.
		proposal("new", 0),
		proposal("new", 0), // The one before made it.
		Proposal{Key: podKey("a", "none")},
		Proposal{Key: podKey("a", "old"), Expect: 5},
		proposal("old", 0), // The one before removed it.
	)
	if !errors.Is(err, ErrChanged) {
		t.Errorf("the error is %v", err)
	}
	var changed *ChangedError
	if errors.As(err, &changed) {
		if diff := cmp.Diff([]string{podKey("a", "old"), podKey("a", "new")}, changed.Keys); diff != "" {
			t.Errorf("changed keys (-want +got):\n%s", diff)
		}
	}
	var got []uint64
	for _, entry := range entries {
		got = append(got, revisionOf(entry))
	}
	if diff := cmp.Diff([]uint64{0, 6, 0, 0, 0, 8}, got); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	if version := entries[5].Object.GetResourceVersion(); version != "8" {
		t.Errorf("the object has the resourceVersion %s", version)
	}
}

// TestSequencerContext: who gives up before the turn has come changes nothing; a
// change that is under way cannot be taken back.
func TestSequencerContext(t *testing.T) {
	l, f := newTestLog(t, Config{}), newFollower()
	s := NewSequencer(l, counter{}, f.replicate, clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	results := map[string]chan error{"underway": make(chan error, 1), "waiting": make(chan error, 1)}
	propose := func(name string) {
		_, err := s.Propose(ctx, proposal(name, 0))
		results[name] <- err
	}
	go propose("underway")
	<-f.batches
	go propose("waiting")
	polltest.Eventually(t, "the second proposal waiting", func() bool { return s.waits() == 1 })
	cancel()
	if err := <-results["waiting"]; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that waited: %v", err)
	}
	f.results <- nil
	if err := <-results["underway"]; err != nil {
		t.Errorf("the one under way: %v", err)
	}
	if l.Len() != 1 {
		t.Errorf("the log has %d objects", l.Len())
	}
}

// TestSequencerWaitsForTheSlowest: writes wait for a watch that is far behind, but
// not for one that hangs.
func TestSequencerWaitsForTheSlowest(t *testing.T) {
	l := newTestLog(t, Config{})
	cursor := l.Follow(1)
	defer cursor.Close()
	for revision := uint64(2); revision < lagLimit+10; revision++ {
		mustAppend(t, l, put(revision, "p"))
	}
	fake := clocktesting.NewFakeClock(time.Now())
	s := NewSequencer(l, counter{}, nil, fake)
	done := make(chan error, 1)
	propose := func() {
		_, err := s.Propose(t.Context(), proposal("x", revisionOf(l.Get(podKey("a", "x")))))
		done <- err
	}
	go propose()
	for range lagPatience / lagPause {
		polltest.Eventually(t, "waiting for the cursor", fake.HasWaiters)
		if l.Get(podKey("a", "x")) != nil {
			t.Fatal("the write did not wait for as long as the patience lasts")
		}
		fake.Step(lagPause)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, ok := cursor.Read(lagLimit); !ok {
		t.Fatal("the history is lost")
	}
	go propose()
	if err := <-done; err != nil || fake.HasWaiters() {
		t.Errorf("the write waits though the cursor has caught up: %v", err)
	}
}
