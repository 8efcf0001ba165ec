package records

import (
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// TestPagesAreOneList reads a list in pages, as the cacher does if there are more than 10,000
// objects. Records of the first page must not be dropped because the last page does not contain
// them. Records that are on no page must be dropped.
func TestPagesAreOneList(t *testing.T) {
	raw, ctx := newRaw(t), t.Context()
	key := func(i int) string { return fmt.Sprintf("/pods/test-ns/pod-%d", i) }
	for i := range 5 {
		pod := &example.Pod{}
		pod.Namespace, pod.Name = "test-ns", fmt.Sprintf("pod-%d", i)
		if err := raw.Create(ctx, key(i), pod, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	reader := newStore(t, client(t), "b")
	reads := &source{Store: reader, ended: make(chan struct{})}
	known := func() (keys []string) {
		for i := range 5 {
			if reader.Table.Get(key(i)) != nil {
				keys = append(keys, key(i))
			}
		}
		return keys
	}
	list := func(least int) []string {
		options := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
		options.Predicate.Limit = 2
		for pages := 0; pages == 0 || options.Predicate.Continue != ""; pages++ {
			page := &example.PodList{}
			if err := reads.GetList(ctx, "/pods/", options, page); err != nil {
				t.Fatal(err)
			}
			options.Predicate.Continue = page.Continue
			if keys := known(); len(keys) < least {
				t.Errorf("after page %d only %v are known", pages+1, keys)
			}
		}
		return known()
	}
	if keys := list(2); len(keys) != 5 {
		t.Errorf("after a list in pages only %v are known", keys)
	}
	if err := raw.Delete(ctx, key(1), &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if keys := list(4); len(keys) != 4 {
		t.Errorf("after one was deleted %v are known", keys)
	}
}
