package objectlog

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// put and remove are changes of pods in one namespace.
func put(revision uint64, name string) Change {
	return Change{Key: podKey("a", name), Revision: revision, Object: pod("a", name)}
}

func remove(revision uint64, name string) Change {
	return Change{Key: podKey("a", name), Revision: revision}
}

func mustAppend(tb testing.TB, l *Log, changes ...Change) {
	tb.Helper()
	if err := l.Append(changes...); err != nil {
		tb.Fatal(err)
	}
}

// shown are the keys of a state with their revisions.
func shown(entries []*Entry) map[string]uint64 {
	result := map[string]uint64{}
	for _, entry := range entries {
		result[entry.Key] = entry.Revision
	}
	return result
}

// TestLogShowsEveryRevision compares each state that the log rebuilds with one
// that was kept, for distances between snapshots that fit and do not fit.
func TestLogShowsEveryRevision(t *testing.T) {
	for _, every := range []int{1, 7, 64, 10_000} {
		t.Run(fmt.Sprintf("every=%d", every), func(t *testing.T) {
			const events = 400
			l := newTestLog(t, Config{History: 10 * events, SnapshotEvery: every})
			states := map[uint64]map[string]uint64{1: {}}
			random, state := rand.New(rand.NewPCG(1, 2)), map[string]uint64{}
			for revision := uint64(3); revision < 3+2*events; revision += 2 {
				name := fmt.Sprintf("p%02d", random.IntN(40))
				if _, there := state[podKey("a", name)]; there && random.IntN(3) == 0 {
					mustAppend(t, l, remove(revision, name))
					delete(state, podKey("a", name))
				} else {
					mustAppend(t, l, put(revision, name))
					state[podKey("a", name)] = revision
				}
				states[revision] = maps.Clone(state)
				states[revision-1] = states[max(1, revision-2)]
			}
			verifyStates(t, l, states)
			compact(l, 555)
			verifyStates(t, l, states)
			if got := l.Floor(); got != 555 {
				t.Errorf("the floor is %d, not 555", got)
			}
		})
	}
}

func verifyStates(t *testing.T, l *Log, states map[uint64]map[string]uint64) {
	t.Helper()
	for _, revision := range slices.Sorted(maps.Keys(states)) {
		tree, _, ok := l.stateAt(revision)
		if ok != (revision >= l.Floor()) {
			t.Fatalf("revision %d with the floor at %d: readable is %v", revision, l.Floor(), ok)
		}
		if !ok {
			continue
		}
		if diff := cmp.Diff(states[revision], shown(entriesOf(tree))); diff != "" {
			t.Fatalf("the state at revision %d (-want +got):\n%s", revision, diff)
		}
	}
}

func TestLogAppend(t *testing.T) {
	tests := map[string]struct {
		changes []Change
		wrong   string
		head    uint64
	}{
		"ascending":      {changes: []Change{put(2, "a"), put(9, "b")}, head: 9},
		"the head again": {changes: []Change{put(1, "a")}, wrong: "its revision 1 is not greater than 1", head: 1},
		"none of them":   {changes: []Change{put(5, "a"), put(5, "b")}, wrong: "/pods/a/b: its revision 5 is not greater than 5", head: 1},
		"nothing":        {head: 1},
		"a removal":      {changes: []Change{put(2, "a"), remove(3, "a")}, head: 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := newTestLog(t, Config{})
			err := l.Append(test.changes...)
			if test.wrong == "" && err != nil || test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
				t.Errorf("got the error %v, want %q", err, test.wrong)
			}
			if l.Head() != test.head {
				t.Errorf("the head is %d, not %d", l.Head(), test.head)
			}
			if entry := l.Get(podKey("a", "b")); entry != nil && entry.Object.GetResourceVersion() != "9" {
				t.Errorf("b has the resourceVersion %q", entry.Object.GetResourceVersion())
			}
		})
	}
}

func TestLogKeepsWhatACursorNeeds(t *testing.T) {
	l := newTestLog(t, Config{History: 40, MaxHistory: 100, SnapshotEvery: 8})
	cursor := l.Follow(1)
	defer cursor.Close()
	appendMany := func(from, to uint64) {
		for revision := from; revision <= to; revision++ {
			mustAppend(t, l, put(revision, fmt.Sprint(revision%7)))
		}
	}
	appendMany(2, 90)
	if l.Floor() > 1 || l.Lag() != 89 {
		t.Errorf("with a cursor at 1 the floor is %d and the lag %d", l.Floor(), l.Lag())
	}
	events, ok := cursor.Read(60)
	if !ok || len(events) != 60 || cursor.Position() != 61 {
		t.Fatalf("read %d events up to %d, ok %v", len(events), cursor.Position(), ok)
	}
	appendMany(91, 100)
	if floor := l.Floor(); floor <= 1 || floor > 61 {
		t.Errorf("with a cursor at 61 the floor is %d", floor)
	}
	appendMany(101, 300)
	if _, ok := cursor.Read(1); ok {
		t.Error("a cursor that stays behind keeps more than MaxHistory")
	}
	if kept := len(l.history.records); kept > 100 {
		t.Errorf("%d events are kept", kept)
	}
	if snapshots := len(l.history.snapshots); snapshots > 100/8+1 {
		t.Errorf("%d snapshots are kept", snapshots)
	}
}

func TestLogReset(t *testing.T) {
	l := newTestLog(t, Config{})
	mustAppend(t, l, put(5, "a"), put(6, "b"))
	cursor := l.Follow(6)
	defer cursor.Close()
	entry := &Entry{Key: podKey("a", "c"), Revision: 4, Object: pod("a", "c")}
	for name, test := range map[string]struct {
		head  uint64
		wrong string
	}{
		"backwards":    {head: 5, wrong: "the new head 5 is less than the head 6"},
		"entry beyond": {head: 3, wrong: "/pods/a/c has revision 4, which is greater than the head 3"},
	} {
		if err := l.Reset([]*Entry{entry}, test.head); err == nil || !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: got the error %v", name, err)
		}
	}
	changed := l.Changed()
	if err := l.Reset([]*Entry{entry}, 6); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told of the reset")
	}
	if _, ok := cursor.Read(1); ok {
		t.Error("a cursor at the head of before did not notice that the history is lost")
	}
	if _, ok := l.Since(5, 1); ok {
		t.Error("a revision of before is still there")
	}
	entries, head := l.Snapshot()
	if diff := cmp.Diff(map[string]uint64{podKey("a", "c"): 4}, shown(entries)); diff != "" || head != 6 {
		t.Errorf("head %d, entries (-want +got):\n%s", head, diff)
	}
}

func TestOriginGivesHistory(t *testing.T) {
	l := newTestLog(t, Config{History: 20, SnapshotEvery: 8})
	for revision := uint64(2); revision < 100; revision++ {
		mustAppend(t, l, put(revision, fmt.Sprint(revision%9)))
	}
	mustAppend(t, l, remove(100, "3"))
	entries, floor := l.Origin()
	events, ok := l.Since(floor, 1000)
	if !ok || floor < 50 {
		t.Fatalf("floor %d, ok %v", floor, ok)
	}
	other := New(Config{})
	if err := other.Reset(entries, floor); err != nil {
		t.Fatal(err)
	}
	for i := range events {
		mustAppend(t, other, events[i].Change)
	}
	for revision := floor; revision <= 100; revision++ {
		want, _, _ := l.stateAt(revision)
		got, _, ok := other.stateAt(revision)
		if diff := cmp.Diff(shown(entriesOf(want)), shown(entriesOf(got))); diff != "" || !ok {
			t.Errorf("revision %d, ok %v (-first +second):\n%s", revision, ok, diff)
		}
	}
}

func TestLogWait(t *testing.T) {
	l := New(Config{})
	if l.Initialized() {
		t.Error("an empty log says that it is initialized")
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- l.Wait(ctx, 7) }()
	cancel()
	if err := <-stopped; err == nil {
		t.Error("waiting did not end with the context")
	}
	done := make(chan error, 2)
	go func() { done <- l.Wait(t.Context(), 7) }()
	go func() { done <- l.WaitInitialized(t.Context()) }()
	mustAppend(t, l, put(3, "a"))
	mustAppend(t, l, put(7, "a"))
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestLocks(t *testing.T) {
	l := New(Config{})
	unlock, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := l.TryLock("a"); ok {
		t.Error("two hold the lock of a key")
	}
	other, ok := l.TryLock("b")
	if !ok {
		t.Fatal("the lock of another key is taken")
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Lock(ctx, "a"); err == nil {
		t.Error("waiting for a lock did not end with the context")
	}
	next := make(chan func())
	go func() {
		unlock, err := l.Lock(context.Background(), "a")
		if err != nil {
			t.Error(err)
		}
		next <- unlock
	}()
	unlock()
	unlock() // Once more does no harm to the next one.
	(<-next)()
	if left := len(l.locks.held); left != 0 {
		t.Errorf("%d locks are left over", left)
	}
}
