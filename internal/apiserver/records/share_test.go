package records

import (
	"strings"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// TestShare decodes two workspaces, which then share their equal texts and labels, and keep their
// own values.
func TestShare(t *testing.T) {
	s, long := newSharer(), strings.Repeat("x", sharedLength+1)
	decoded := func(name string) *aggregationv1alpha1.CoderWorkspace {
		copied := strings.Clone
		return &aggregationv1alpha1.CoderWorkspace{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Labels: map[string]string{copied("team"): copied("a")}, ManagedFields: metadata.ManagedFields(),
				Annotations: map[string]string{"text": name},
			},
			Status: aggregationv1alpha1.CoderWorkspaceStatus{
				Phase: copied("Running"), LatestBuildError: copied(long), LatestBuild: &aggregationv1alpha1.WorkspaceBuild{Status: copied("succeeded")},
				Conditions: append(make([]metav1.Condition, 0, 4), metav1.Condition{Reason: copied("Running"), LastTransitionTime: metav1.Now()}),
			},
		}
	}
	first, second := decoded("one"), decoded("two")
	wanted := second.DeepCopy()
	s.object(first)
	s.object(second)
	if !equality.Semantic.DeepEqual(wanted, second) {
		t.Errorf("it became %v, want %v", second, wanted)
	}
	same := func(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
	for what, shared := range map[string]bool{
		"the phase":                   same(first.Status.Phase, second.Status.Phase),
		"a text behind a pointer":     same(first.Status.LatestBuild.Status, second.Status.LatestBuild.Status),
		"a text in a list":            same(first.Status.Conditions[0].Reason, second.Status.Phase),
		"the default managed fields":  &first.ManagedFields[0] == &second.ManagedFields[0],
		"no long text":                !same(first.Status.LatestBuildError, second.Status.LatestBuildError),
		"no reserve of a list":        cap(second.Status.Conditions) == 1,
		"no managed fields of others": &first.ManagedFields[0] != &wanted.ManagedFields[0],
	} {
		if !shared {
			t.Errorf("not as expected: %s", what)
		}
	}
	first.Labels["shared"] = "yes"
	if second.Labels["shared"] == "" {
		t.Error("they have their own labels")
	}
}

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
