package mirror

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// TestTwoRecordsOfOneWorkspace covers a record that stayed after Coder renamed the workspace, which it had
// built in advance, for another object. Only the record with the name in Coder stays, and nothing
// happens to the workspace. Until then no client can change or delete it through either record.
func TestTwoRecordsOfOneWorkspace(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	id := c.create("prebuilds", "one")
	c.finish(id)
	s.until(time.Minute, "Ready", s.ready(c))
	store := s.records.Workspaces
	c.mu.Lock()
	c.items[id].OwnerName, c.items[id].Name = "ada", "dev"
	c.mu.Unlock()
	// Another replica, which does not know the first record, creates the second one.
	other := s.records.Replica()
	ghost, _ := store.Table.Find(c.name, uidOf(id))
	object := ghost.Object.DeepCopyObject().(records.Object)
	object.SetName("coder.ada.dev")
	key := store.Key("team", "coder.ada.dev")
	if err := other.Workspaces.Propose(s.ctx, records.Proposal{Key: key, Object: object, Natural: "coder.ada.dev"}); err != nil {
		t.Fatal(err)
	}
	if err := store.Learn(s.ctx, key); err != nil {
		t.Fatal(err)
	}
	if got := store.Table.Twins(c.name, uidOf(id)); !slices.Equal(got, []string{key, ghost.Key}) {
		t.Errorf("the twins are %v", got)
	}
	s.until(time.Minute, "one record is left", func() bool { return len(s.records.Cluster("CoderWorkspace").All()) == 1 })
	if got := s.records.Cluster("CoderWorkspace").All()[0]; got.Name != "coder.ada.dev" || store.Table.Twins(c.name, uidOf(id)) != nil {
		t.Errorf("the record of %s is left", got.Name)
	}
	s.equal(c)
	if c.items[id] == nil {
		t.Error("the workspace is gone")
	}
}

// TestTwoRecordsOfARenamedWorkspace is like TestTwoRecordsOfOneWorkspace, but none of the records has the name in
// Coder. The one with the metadata of clients stays.
func TestTwoRecordsOfARenamedWorkspace(t *testing.T) {
	s := newSim(t, 1)
	c := s.add("team", "prod")
	id := c.create("prebuilds", "one")
	c.finish(id)
	s.until(time.Minute, "Ready", s.ready(c))
	c.mu.Lock()
	c.items[id].OwnerName, c.items[id].Name = "zoe", "renamed"
	c.mu.Unlock()
	store, cluster := s.records.Workspaces, s.records.Cluster("CoderWorkspace")
	second := cluster.All()[0]
	second.Name, second.Kept, second.Revision = "coder.zoe.dev", `{"labels":{"team":"blue"},"finalizers":["example.com/hold"]}`, 0
	if err := errors.Join(cluster.Create(s.ctx, &second), store.Learn(s.ctx, store.Key("team", second.Name))); err != nil {
		t.Fatal(err)
	}
	s.until(time.Minute, "one record is left", func() bool { return len(cluster.All()) == 1 })
	if got := cluster.All()[0]; got.Name != second.Name || got.Kept != second.Kept {
		t.Errorf("the record of %s is left, with %q", got.Name, got.Kept)
	}
}
