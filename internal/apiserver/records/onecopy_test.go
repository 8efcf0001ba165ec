package records

import (
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// TestOneCopy starts a cache on existing records. The Table must have the same object as the cache,
// because a second one doubles the memory.
func TestOneCopy(t *testing.T) {
	raw, ctx := newRaw(t), t.Context()
	pod := &example.Pod{}
	pod.Namespace, pod.Name = "test-ns", "pod"
	if err := raw.Create(ctx, "/pods/test-ns/pod", pod, nil, 0); err != nil {
		t.Fatal(err)
	}
	reader, stored := newStore(t, client(t), "b"), make(chan runtime.Object, 10)
	newCachedOver(t, reader, func(config *cacher.Config) {
		config.GetAttrsFunc = func(object runtime.Object) (labels.Set, fields.Set, error) {
			stored <- object
			return attributes(object)
		}
	})
	if object := <-stored; reader.Table.Get("/pods/test-ns/pod").Object != object {
		t.Error("the Table and the cache have different copies of the object")
	}
}

// TestListAfterKept lists again after only the kept metadata of a record has changed. The objects
// must have the revision of the record, although the Table keeps its entry.
func TestListAfterKept(t *testing.T) {
	raw, ctx := newRaw(t), t.Context()
	pod := &example.Pod{}
	pod.Namespace, pod.Name = "test-ns", "pod"
	if err := raw.Create(ctx, "/pods/test-ns/pod", pod, nil, 0); err != nil {
		t.Fatal(err)
	}
	reads := &source{Store: newStore(t, client(t), "b"), ended: make(chan struct{})}
	list := func() string {
		pods := &example.PodList{}
		if err := reads.GetList(ctx, "/pods/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, pods); err != nil || len(pods.Items) != 1 {
			t.Fatal(len(pods.Items), err)
		}
		return pods.Items[0].ResourceVersion
	}
	list()
	record, err := raw.config.Cluster.Get(ctx, "test-ns", "pod", "")
	if err != nil {
		t.Fatal(err)
	}
	record.Kept = `{"generation":2}`
	if err := raw.config.Cluster.Update(ctx, record); err != nil {
		t.Fatal(err)
	}
	if version := list(); version != formatRevision(record.Revision) {
		t.Errorf("the object has revision %s, its record %d", version, record.Revision)
	}
}

// TestVersionsAreShared: states of a template with the same versions have one copy of them.
func TestVersionsAreShared(t *testing.T) {
	attached := func(text string, known *held) *aggregationv1alpha1.CoderTemplate {
		tmpl, record := &aggregationv1alpha1.CoderTemplate{}, &Record{}
		record.Versions = text
		if err := attachVersions(tmpl, record, known); err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	const text = `{"readAt":"2026-01-02T03:04:05.000006Z","items":[{"metadata":{"name":"v1"}}]}`
	known := &held{entry: &Entry{Object: attached(text, nil)}}
	if first := known.entry.Object.(*aggregationv1alpha1.CoderTemplate).Status.Versions; attached(text, known).Status.Versions != first {
		t.Error("the same versions are two objects")
	}
	if other := attached(`{"readAt":null,"items":[{"metadata":{"name":"v2"}}]}`, known).Status.Versions; other.Items[0].Name != "v2" {
		t.Errorf("other versions: %+v", other)
	}
}
