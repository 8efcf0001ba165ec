package records

import (
	"testing"

	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// TestBury checks that an event from before a deletion of this replica is ignored, and that nothing
// stays in memory if the watch delivers the deletion before kube-apiserver responds to it.
func TestBury(t *testing.T) {
	table := NewTable(clock.RealClock{})
	see := func(revision uint64) { table.see(&held{key: "a", revision: revision}) }
	see(5)
	table.bury("a", 5)
	if see(5); table.get("a") != nil {
		t.Error("a deleted record is known again")
	}
	table.show(5)
	if len(table.graves) > 0 {
		t.Errorf("after the watch has delivered them, the deletions %v are still known", table.graves)
	}
	table.lose("a", 6)
	table.show(6)
	see(7)
	table.show(7)
	table.lose("a", 8)
	table.show(8)
	table.bury("a", 7)
	if len(table.graves) > 0 {
		t.Errorf("the deletions %v are never forgotten", table.graves)
	}
}

// TestLateResponse checks that the response to a read does not restore a record that was deleted meanwhile.
func TestLateResponse(t *testing.T) {
	table := NewTable(clock.RealClock{})
	table.see(&held{key: "a", revision: 5})
	table.show(5)
	table.lose("a", 6)
	table.show(6)
	if table.see(&held{key: "a", revision: 5}); table.get("a") != nil {
		t.Error("the watch has delivered the deletion, and the record is known again")
	}
}

// TestPruned checks that the Table has what kube-apiserver has stored, and not what this replica has sent: an older definition drops
// fields. An event that confirms what was sent is no change.
func TestPruned(t *testing.T) {
	table := NewTable(clock.RealClock{})
	record := func(kept string, sent bool) *held {
		h := &held{key: "a", revision: 5, sent: sent, entry: &Entry{Key: "a", Object: &aggregationv1alpha1.CoderUser{}}}
		h.spec.ID, h.spec.Kept = "x", kept
		return h
	}
	table.see(record("new", true))
	sequence := table.Sequence()
	if table.see(record("new", false)); table.Sequence() != sequence {
		t.Error("an event of a known state is a change")
	}
	table.see(record("", false))
	if got := table.get("a"); got.spec.Kept != "" {
		t.Errorf("the table has %q, which kube-apiserver has not stored", got.spec.Kept)
	}
	if table.see(record("new", true)); table.get("a").spec.Kept != "" {
		t.Error("what was sent replaces what was stored")
	}
}
