package records

import (
	"testing"

	"k8s.io/utils/clock"
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
