package records

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
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

// TestKnownObjects checks that a consistent read uses the known object only while its record has the
// known revision, and not if the record is damaged.
func TestKnownObjects(t *testing.T) {
	raw, ctx := newRaw(t), t.Context()
	reader := newStore(t, client(t), "b")
	const key = "/pods/test-ns/pod"
	check := func(when string, want bool) {
		t.Helper()
		out, newest := &example.Pod{}, &example.Pod{}
		known, err := reader.getKnown(ctx, key, out)
		if err != nil || known != want {
			t.Fatalf("%s: the known object is used: %t, want %t; %v", when, known, want, err)
		}
		if !known {
			return
		}
		if err := raw.Get(ctx, key, storage.GetOptions{}, newest); err != nil || !equality.Semantic.DeepEqual(out, newest) {
			t.Errorf("%s: read %+v, want %+v; %v", when, out, newest, err)
		}
		out.Labels["a"] = "changed by the reader"
	}
	learn := func() {
		t.Helper()
		if err := reader.Learn(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	change := func(edit func(*Record)) {
		t.Helper()
		record, err := raw.config.Cluster.Get(ctx, "test-ns", "pod", "")
		if err == nil {
			edit(record)
			err = raw.config.Cluster.Update(ctx, record)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check("it does not exist", false)
	pod := &example.Pod{}
	pod.Namespace, pod.Name, pod.Labels = "test-ns", "pod", map[string]string{"a": "one"}
	if err := raw.Create(ctx, key, pod, nil, 0); err != nil {
		t.Fatal(err)
	}
	check("it was not read", false)
	learn()
	check("it was read", true)
	check("it was read twice", true)
	change(func(r *Record) { r.Claim = "other/1" })
	check("its record has changed", false)
	learn()
	check("only the record has changed", true)
	text := ""
	change(func(r *Record) { text, r.Object = r.Object, "{" })
	learn()
	check("it is damaged", false)
	change(func(r *Record) { r.Object, r.Claim = text, "" }) // A claim would delay the deletion by a minute.
	learn()
	check("it is repaired", true)
	if err := raw.Delete(ctx, key, &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	check("it was deleted", false)
}

// refusing is a Cluster that refuses writes, or does not respond.
type refusing struct {
	Cluster
	writes, all atomic.Bool
}

func (r *refusing) write() error {
	switch {
	case r.all.Load():
		return errors.New("connection refused")
	case r.writes.Load():
		return apierrors.NewInternalError(errors.New(etcdFull))
	}
	return nil
}

func (r *refusing) Create(ctx context.Context, record *Record) error {
	if err := r.write(); err != nil {
		return err
	}
	return r.Cluster.Create(ctx, record)
}

func (r *refusing) Update(ctx context.Context, record *Record) error {
	if err := r.write(); err != nil {
		return err
	}
	return r.Cluster.Update(ctx, record)
}

func (r *refusing) List(ctx context.Context, query Query) (*List, error) {
	if r.all.Load() {
		return nil, r.write()
	}
	return r.Cluster.List(ctx, query)
}

// TestListsWithoutAHeartbeat checks consistent lists while kube-apiserver accepts no writes: they return
// what was written before, in pages and with a selector. If it does not respond, they return 503.
func TestListsWithoutAHeartbeat(t *testing.T) {
	raw, ctx := newRaw(t), t.Context()
	cluster := &refusing{Cluster: client(t)}
	over := newCachedOver(t, newStore(t, cluster, "b"))
	cluster.writes.Store(true)
	last := &example.Pod{}
	for i := range 5 {
		pod := &example.Pod{}
		pod.Namespace, pod.Name, pod.Labels = "test-ns", fmt.Sprintf("pod-%d", i), map[string]string{"odd": fmt.Sprint(i%2 == 1)}
		if err := raw.Create(ctx, "/pods/test-ns/"+pod.Name, pod, last, 0); err != nil {
			t.Fatal(err)
		}
	}
	list := func(predicate storage.SelectionPredicate) (names, next string, err error) {
		page := &example.PodList{}
		err = over.GetList(ctx, "/pods/", storage.ListOptions{Recursive: true, Predicate: predicate}, page)
		for i := range page.Items {
			names += page.Items[i].Name + " "
		}
		is, _ := parseRevision(page.ResourceVersion)
		if written, _ := parseRevision(last.ResourceVersion); err == nil && is < written {
			t.Errorf("the list has the resource version %s, before %s of an object in it", page.ResourceVersion, last.ResourceVersion)
		}
		return names, page.Continue, err
	}
	pages := storage.Everything
	pages.Limit = 2
	for _, want := range []string{"pod-0 pod-1 ", "pod-2 pod-3 ", "pod-4 "} {
		names, next, err := list(pages)
		if err != nil || names != want || (next == "") != (want == "pod-4 ") {
			t.Errorf("a page has %q, want %q, and continues with %q: %v", names, want, next, err)
		}
		pages.Continue = next
	}
	odd := storage.SelectionPredicate{Label: labels.SelectorFromSet(labels.Set{"odd": "true"}), Field: fields.Everything(), GetAttrs: storage.DefaultNamespaceScopedAttr}
	if names, _, err := list(odd); err != nil || names != "pod-1 pod-3 " {
		t.Errorf("a list with a selector has %q: %v", names, err)
	}
	cluster.all.Store(true)
	if names, _, err := list(storage.Everything); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("while kube-apiserver does not respond, a list has %q: %v", names, err)
	}
}
