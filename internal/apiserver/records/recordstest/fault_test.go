package recordstest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const prefix = "/aggregation.coder.com/coderworkspaces/"

// TestMain declares to the library which features the storage supports.
func TestMain(m *testing.M) {
	records.EnableWatchProgress()
	m.Run()
}

// cached returns the library's cacher in front of a store.
func cached(t *testing.T, s *records.Store) storage.Interface {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := aggregationv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs, version := serializer.NewCodecFactory(scheme), aggregationv1alpha1.GroupVersion
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	over, destroy, err := records.NewCacher(s, cacher.Config{
		Codec:         codecs.CodecForVersions(info.Serializer, info.Serializer, version, version),
		GroupResource: schema.GroupResource{Resource: "coderworkspaces"}, EventsHistoryWindow: cacher.DefaultEventFreshDuration,
		ResourcePrefix: prefix, KeyFunc: func(o runtime.Object) (string, error) { return storage.NamespaceKeyFunc(prefix, o) },
		GetAttrsFunc: storage.DefaultNamespaceScopedAttr, Indexers: &cache.Indexers{},
		NewFunc:     func() runtime.Object { return &aggregationv1alpha1.CoderWorkspace{} },
		NewListFunc: func() runtime.Object { return &aggregationv1alpha1.CoderWorkspaceList{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	polltest.Eventually(t, "the cache is filled", over.ReadinessCheck)
	return over
}

// TestCompactionWhileAway covers an outage of kube-apiserver for one replica, during which objects
// change through another replica and etcd compacts its history. Afterwards, consistent lists return
// the current objects, and none that were deleted.
func TestCompactionWhileAway(t *testing.T) {
	ctx := t.Context()
	c := newCluster(t)
	mine := &cutOff{Cluster: c.records}
	store := records.NewStore(records.Workspaces(mine, "cut-off", "coder-system", clocktesting.NewFakePassiveClock(time.Now())))
	over := cached(t, store)
	add := func(name string) {
		t.Helper()
		ws := workspace("zero")
		ws.Name, ws.UID = name, ""
		if err := c.b.Create(ctx, prefix+"team/"+name, ws, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	add("coder.ada.gone")
	names := func(ctx context.Context) (string, error) {
		list := &aggregationv1alpha1.CoderWorkspaceList{}
		err := over.GetList(ctx, prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list)
		all := make([]string, len(list.Items))
		for i := range list.Items {
			all[i] = list.Items[i].Name
		}
		return strings.Join(all, " "), err
	}
	if got, err := names(ctx); err != nil || got != "coder.ada.gone" {
		t.Fatalf("at first there is %q, %v", got, err)
	}
	mine.cut(errors.New("connection refused"))
	if got, err := names(ctx); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("while kube-apiserver is away a consistent list returns %q, %v", got, err)
	}
	gone, err := c.records.Get(ctx, "team", "coder.ada.gone", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.records.Delete(ctx, "team", "coder.ada.gone", gone.Revision); err != nil {
		t.Fatal(err)
	}
	add("coder.ada.new")
	c.records.Compact()
	mine.cut(nil)
	polltest.Eventually(t, "consistent lists are answered", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		got, err := names(ctx)
		if err == nil && got != "coder.ada.new" {
			t.Fatalf("a consistent list shows %q", got)
		}
		return err
	})
}

// TestAFullEtcd covers an etcd that accepts no writes: writes fail with a message that says what to
// do. A change that cannot be recorded is not sent to Coder. A change that was sent before becomes
// visible later. Nothing is lost.
func TestAFullEtcd(t *testing.T) {
	full := apierrors.NewInternalError(errors.New("etcdserver: mvcc: database space exceeded"))
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "coderworkspacerecords"}, "coder.ada.dev", errors.New("exceeded quota: records"))
	for name, c := range map[string]struct {
		err  error
		says string
	}{"full": {full, "etcd is full"}, "quota": {quota, "quotas of the namespace"}} {
		t.Run(name, func(t *testing.T) { refusesWrites(t, c.err, c.says) })
	}
}

func refusesWrites(t *testing.T, refusal error, says string) {
	ctx := t.Context()
	now := clocktesting.NewFakePassiveClock(time.Now())
	c := &cluster{records: recordstest.NewCluster(&recordstest.Etcd{}, "coderworkspacerecords"), coder: &coder{}}
	c.a = records.NewStore(records.Workspaces(c.records, "a", "coder-system", now))
	c.b = records.NewStore(records.Workspaces(c.records, "b", "coder-system", now))
	c.a.WriteWith(c.coder)
	c.b.WriteWith(c.coder)
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	reported := c.coder.reported
	c.records.Full(refusal)
	err := label(ctx, c.a, "one")
	if _, later := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !later || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("a write returns %v", err)
	}
	if c.coder.reported != reported {
		t.Error("Coder was told what cannot be recorded")
	}
	c.records.Full(nil)
	// etcd becomes full after Coder has carried out the change.
	c.coder.write = func(_ context.Context, _, wanted records.Object) (records.Object, error) {
		c.records.Full(refusal)
		return wanted, nil
	}
	if err := label(ctx, c.a, "two"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a write that cannot be recorded in the end returns %v", err)
	}
	c.records.Full(nil)
	c.coder.write = nil
	if err := c.b.Learn(ctx, key); err != nil {
		t.Fatal(err)
	}
	if _, free := c.b.TryLock(key); free {
		t.Error("another replica may write at once, though a change is under way")
	}
	now.SetTime(now.Now().Add(2 * time.Minute))
	unlock, free := c.b.TryLock(key)
	if !free {
		t.Fatal("the claim is respected for ever")
	}
	unlock()
	if err := label(ctx, c.b, "three"); err != nil {
		t.Fatal(err)
	}
	ws := &aggregationv1alpha1.CoderWorkspace{}
	if err := c.a.Get(ctx, key, storage.GetOptions{}, ws); err != nil || ws.Labels["a"] != "three" || ws.UID != "1" {
		t.Errorf("in the end there is %v, %v", ws.ObjectMeta, err)
	}
}
