package recordstest_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// TestADamagedRecordHidesNoOther edits a record by hand so that it cannot be decoded. All other
// objects are listed and watched as before, a replica that knew the object never reports it as
// absent, and the next write of the mirror repairs the record.
func TestADamagedRecordHidesNoOther(t *testing.T) {
	for name, damage := range map[string]func(*records.Record){
		"object": func(r *records.Record) { r.Object = "{" },
		"kept":   func(r *records.Record) { r.Kept = "labels: {" },
	} {
		t.Run(name, func(t *testing.T) { damaged(t, damage) })
	}
}

func damaged(t *testing.T, damage func(*records.Record)) {
	c, ctx := newCluster(t), t.Context()
	other := workspace("other")
	other.Name, other.UID = "coder.ada.other", "2"
	otherKey := strings.Replace(key, "dev", "other", 1)
	for k, ws := range map[string]*aggregationv1alpha1.CoderWorkspace{key: workspace("zero"), otherKey: other} {
		if err := c.a.Create(ctx, k, ws, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	known := c.a.Table.Get(key)
	record := c.records.All()[0]
	before := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	if err := c.a.GetList(ctx, "/aggregation.coder.com/coderworkspaces/", before, list); err != nil {
		t.Fatal(err)
	}
	before.ResourceVersion = list.ResourceVersion
	events, err := c.a.Watch(ctx, "/aggregation.coder.com/coderworkspaces/", before)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	damage(&record)
	if err := c.records.Update(ctx, &record); err != nil {
		t.Fatal(err)
	}
	if err := c.records.Delete(ctx, "team", other.Name, c.records.All()[1].Revision); err != nil {
		t.Fatal(err)
	}
	if event := <-events.ResultChan(); event.Type != watch.Deleted {
		t.Errorf("the watch shows %s %v, want the deletion of the other object", event.Type, event.Object)
	}
	// A new replica.
	before.ResourceVersion = ""
	if err := c.b.GetList(ctx, "/aggregation.coder.com/coderworkspaces/", before, list); err != nil {
		t.Errorf("a list fails: %v", err)
	}
	if err := c.b.Get(ctx, key, storage.GetOptions{}, &aggregationv1alpha1.CoderWorkspace{}); err != nil && !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a get of the object returns %v", err)
	}
	if err := c.a.Learn(ctx, key); err != nil {
		t.Fatal(err)
	}
	if entry := c.a.Table.Get(key); entry == nil || entry.Revision != known.Revision || !entry.Damaged {
		t.Errorf("the replica that knew the object has %v", entry)
	}
	if err := c.a.Propose(ctx, records.Proposal{Key: key, Expect: known.Revision, Object: workspace("zero"), Natural: "coder.ada.dev"}); err != nil {
		t.Fatal(err)
	}
	repaired := &aggregationv1alpha1.CoderWorkspace{}
	if err := c.b.Get(ctx, key, storage.GetOptions{}, repaired); err != nil || repaired.Labels["a"] != "zero" {
		t.Errorf("after the repair it has %v, %v", repaired.Labels, err)
	}
	if c.a.Table.Get(key).Damaged {
		t.Error("after the repair it counts as damaged")
	}
}
