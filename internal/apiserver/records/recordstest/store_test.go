package recordstest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

const key = "/aggregation.coder.com/coderworkspaces/team/coder.ada.dev"

var plane = types.NamespacedName{Namespace: "team", Name: "coder"}

// coder is a Writer that counts its calls.
type coder struct {
	reported int
	write    func(ctx context.Context, current, wanted records.Object) (records.Object, error)
}

func (c *coder) Write(ctx context.Context, _ string, current, wanted records.Object) (records.Object, error) {
	if err := coderd.BeforeChange(ctx); err != nil {
		return nil, err
	}
	c.reported++
	if c.write != nil {
		return c.write(ctx, current, wanted)
	}
	return wanted, nil
}

func workspace(label string) *aggregationv1alpha1.CoderWorkspace {
	return &aggregationv1alpha1.CoderWorkspace{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: "coder.ada.dev", UID: "1", Labels: map[string]string{"a": label},
	}}
}

// cluster has two replicas on one cluster of records.
type cluster struct {
	records *recordstest.Cluster
	a, b    *records.Store
	coder   *coder
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{records: recordstest.NewCluster(&recordstest.Etcd{}, "coderworkspacerecords"), coder: &coder{}}
	c.a = records.NewStore(records.Workspaces(c.records, "a", "coder-system", clock.RealClock{}))
	c.b = records.NewStore(records.Workspaces(c.records, "b", "coder-system", clock.RealClock{}))
	c.a.WriteWith(c.coder)
	c.b.WriteWith(c.coder)
	return c
}

func label(ctx context.Context, s *records.Store, value string) error {
	return s.GuaranteedUpdate(ctx, key, &aggregationv1alpha1.CoderWorkspace{}, false, nil, func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		ws := in.(*aggregationv1alpha1.CoderWorkspace)
		ws.Labels["a"] = value
		return ws, nil, nil
	}, nil)
}

// TestTwoReplicasWriteOneObject covers an update through one replica while another replica writes
// the same object. The second update waits, and is based on the result of the first one. Coder
// receives them one after the other.
func TestTwoReplicasWriteOneObject(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	telling, goOn := make(chan struct{}), make(chan struct{})
	var order []string
	c.coder.write = func(_ context.Context, current, wanted records.Object) (records.Object, error) {
		order = append(order, current.GetLabels()["a"]+" to "+wanted.GetLabels()["a"])
		if len(order) == 1 {
			close(telling)
			<-goOn
		}
		return wanted, nil
	}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- label(ctx, c.a, "one") }()
	<-telling
	if claim := c.records.All()[0].Claim; !strings.HasPrefix(claim, "a/") {
		t.Errorf("the record does not say who changes the object: %q", claim)
	}
	go func() { second <- label(ctx, c.b, "two") }()
	// The other replica learns of the claim, and of its end, through its watch.
	if err := c.b.Learn(ctx, key); err != nil {
		t.Fatal(err)
	}
	if _, free := c.b.TryLock(key); free {
		t.Error("the mirror of the other replica may write meanwhile")
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if err := c.b.Learn(ctx, key); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"zero to one", "one to two"}, order); diff != "" {
		t.Errorf("Coder was told (-want +got):\n%s", diff)
	}
	if claim := c.records.All()[0].Claim; claim != "" {
		t.Errorf("a claim is left: %q", claim)
	}
}

// TestSettle covers a change by the mirror while another replica writes the same object: it is not sent
// to Coder after that write, and the other replica waits while it is made.
func TestSettle(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	unlock, ok := c.a.TryLock(key)
	if !ok {
		t.Fatal("the object is locked")
	}
	defer unlock()
	sent := 0
	change := func(ctx context.Context) error {
		if err := coderd.BeforeChange(ctx); err != nil {
			return err
		}
		sent++
		return c.b.Learn(ctx, key)
	}
	if err := c.a.Settle(ctx, key, func(inside context.Context, _ *metadata.Record) error {
		if err := label(ctx, c.b, "one"); err != nil {
			return err
		}
		return change(inside)
	}); !errors.Is(err, records.ErrChanged) || sent != 0 {
		t.Errorf("after a write of another replica: %v, %d changes in Coder", err, sent)
	}
	if err := c.a.Learn(ctx, key); err != nil {
		t.Fatal(err)
	}
	if err := c.a.Settle(ctx, key, func(inside context.Context, _ *metadata.Record) error {
		err := change(inside)
		if _, free := c.b.TryLock(key); free {
			t.Error("another replica may write the object meanwhile")
		}
		return err
	}); err != nil || sent != 1 {
		t.Errorf("alone: %v, %d changes in Coder", err, sent)
	}
	if record := c.records.All()[0]; record.Claim != "" || !strings.Contains(record.Object, "one") {
		t.Errorf("the record is %+v", record)
	}
}

// TestAClaimAfterTryLock covers a claim of another replica that a mirror sees after it has taken the
// lock: it overwrites nothing until that write has ended.
func TestAClaimAfterTryLock(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.b.Learn(ctx, key); err != nil {
		t.Fatal(err)
	}
	unlock, ok := c.b.TryLock(key)
	if !ok {
		t.Fatal("the object is locked")
	}
	defer unlock()
	known := c.b.Table.Get(key)
	c.coder.write = func(_ context.Context, _, wanted records.Object) (records.Object, error) {
		if err := c.b.Learn(ctx, key); err != nil {
			return nil, err
		}
		if err := c.b.Propose(ctx, records.Proposal{Key: key, Expect: known.Revision, Object: workspace("read"), Natural: "coder.ada.dev"}); !errors.Is(err, records.ErrChanged) {
			t.Errorf("an update: %v", err)
		}
		if err := c.b.Propose(ctx, records.Proposal{Key: key, Expect: known.Revision}); !errors.Is(err, records.ErrChanged) {
			t.Errorf("a removal: %v", err)
		}
		if err := c.b.Settle(ctx, key, func(inside context.Context, _ *metadata.Record) error {
			return coderd.BeforeChange(inside)
		}); !errors.Is(err, records.ErrChanged) {
			t.Errorf("a change in Coder: %v", err)
		}
		kept := &metadata.Record{ControlPlane: plane, Kind: "CoderWorkspace", Name: "coder.ada.dev", UID: "1", Generation: 7}
		if _, err := records.NewKeeper(c.b).Put(ctx, kept); !apierrors.IsConflict(err) {
			t.Errorf("kept metadata: %v", err)
		}
		return wanted, nil
	}
	if err := label(ctx, c.a, "one"); err != nil {
		t.Errorf("the write: %v", err)
	}
	if all := c.records.All(); len(all) != 1 || all[0].Claim != "" || !strings.Contains(all[0].Object, "one") {
		t.Errorf("the records are %+v", all)
	}
}

// TestNoChangeOfAnOutdatedObject covers a write that would change nothing, at a replica that has not
// seen the newest object: it must change that one.
func TestNoChangeOfAnOutdatedObject(t *testing.T) {
	for name, test := range map[string]struct {
		edit  func(*aggregationv1alpha1.CoderWorkspace)
		write func(ctx context.Context, current, wanted records.Object) (records.Object, error)
		want  string
	}{
		"the client wants nothing else": {
			// The object of a patch has its kind.
			edit: func(ws *aggregationv1alpha1.CoderWorkspace) {
				ws.SetGroupVersionKind(aggregationv1alpha1.GroupVersion.WithKind("CoderWorkspace"))
				ws.Labels["b"] = "zero"
			},
			want: "newer zero",
		},
		"the writer changes nothing": {
			edit:  func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Labels["b"] = "ignored" },
			write: func(_ context.Context, current, _ records.Object) (records.Object, error) { return current, nil },
			want:  "newer one",
		},
		"the client wants what it was before": {
			edit: func(ws *aggregationv1alpha1.CoderWorkspace) { ws.Labels["a"] = "zero" },
			want: "zero one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			ctx := t.Context()
			ws := workspace("zero")
			ws.Labels["b"] = "zero"
			if err := c.a.Create(ctx, key, ws, nil, 0); err != nil {
				t.Fatal(err)
			}
			outdated := c.a.Table.Get(key).Object
			if err := c.b.GuaranteedUpdate(ctx, key, &aggregationv1alpha1.CoderWorkspace{}, false, nil, func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				ws := in.(*aggregationv1alpha1.CoderWorkspace)
				ws.Labels = map[string]string{"a": "newer", "b": "one"}
				return ws, nil, nil
			}, nil); err != nil {
				t.Fatal(err)
			}
			c.a.WriteWith(writer(test.write))
			out := &aggregationv1alpha1.CoderWorkspace{}
			err := c.a.GuaranteedUpdate(ctx, key, out, false, nil, func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				ws := in.(*aggregationv1alpha1.CoderWorkspace)
				test.edit(ws)
				return ws, nil, nil
			}, outdated)
			if got := out.Labels["a"] + " " + out.Labels["b"]; err != nil || got != test.want {
				t.Errorf("the labels are %s, want %s; %v", got, test.want, err)
			}
		})
	}
}

// TestTheObjectHasChangedInTheSystemOfRecord covers a Writer that finds a newer object in the system of record: it is
// stored, and the write is decided again. A request that requires a resourceVersion gets a conflict then.
func TestTheObjectHasChangedInTheSystemOfRecord(t *testing.T) {
	for name, test := range map[string]struct {
		required bool
		newer    string
		want     string
		calls    int
	}{
		"of a patch":                                  {newer: "theirs", want: "theirs+patched", calls: 2},
		"of a request with a resourceVersion":         {newer: "theirs", required: true, want: "theirs", calls: 1},
		"which is stored already, so no endless loop": {newer: "zero", want: "zero", calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			ctx := t.Context()
			if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
				t.Fatal(err)
			}
			seen, calls := c.a.Table.Get(key).Revision, 0
			c.a.WriteWith(writer(func(_ context.Context, _, wanted records.Object) (records.Object, error) {
				if calls++; calls > 1 {
					return wanted, nil
				}
				return nil, records.Newer(aggregationv1alpha1.Resource("coderworkspaces"), workspace(test.newer))
			}))
			out := &aggregationv1alpha1.CoderWorkspace{}
			err := c.a.GuaranteedUpdate(ctx, key, out, false, nil, func(in runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
				if test.required && meta.ResourceVersion != seen {
					return nil, nil, apierrors.NewConflict(aggregationv1alpha1.Resource("coderworkspaces"), "coder.ada.dev", errors.New("changed"))
				}
				ws := in.(*aggregationv1alpha1.CoderWorkspace)
				ws.Labels["a"] += "+patched"
				return ws, nil, nil
			}, nil)
			if conflict := apierrors.IsConflict(err); conflict != (test.calls == 1) || !conflict && err != nil {
				t.Errorf("the result is %v", err)
			}
			all := c.records.All()
			if got := c.a.Table.Get(key).Object.GetLabels()["a"]; got != test.want || calls != test.calls || all[0].Claim != "" {
				t.Errorf("the label is %q, want %q; %d calls, want %d; claim %q", got, test.want, calls, test.calls, all[0].Claim)
			}
		})
	}
}

// writer is a Writer without claims. Nil makes each change.
type writer func(ctx context.Context, current, wanted records.Object) (records.Object, error)

func (w writer) Write(ctx context.Context, _ string, current, wanted records.Object) (records.Object, error) {
	if w == nil {
		return wanted, nil
	}
	return w(ctx, current, wanted)
}

// TestADeposedReplicaOverwritesNothing covers a mirror that continues with outdated data after it
// was stopped.
func TestADeposedReplicaOverwritesNothing(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	known := c.a.Table.Get(key)
	if err := label(ctx, c.b, "newer"); err != nil {
		t.Fatal(err)
	}
	err := c.a.Propose(ctx, records.Proposal{Key: key, Expect: known.Revision, Object: workspace("older"), Natural: "coder.ada.dev"})
	if !errors.Is(err, records.ErrChanged) {
		t.Errorf("it is %v", err)
	}
	if err := c.a.Propose(ctx, records.Proposal{Key: key, Expect: known.Revision}); !errors.Is(err, records.ErrChanged) {
		t.Errorf("a removal is %v", err)
	}
	if all := c.records.All(); len(all) != 1 || !strings.Contains(all[0].Object, "newer") {
		t.Errorf("the records are %v", all)
	}
}

// TestARefusedWriteLeavesNoClaim covers a write that Coder refuses.
func TestARefusedWriteLeavesNoClaim(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	c.coder.write = func(context.Context, records.Object, records.Object) (records.Object, error) {
		return nil, apierrors.NewBadRequest("no")
	}
	if err := label(ctx, c.a, "one"); !apierrors.IsBadRequest(err) {
		t.Errorf("it is %v", err)
	}
	if all := c.records.All(); all[0].Claim != "" || !strings.Contains(all[0].Object, "zero") {
		t.Errorf("the record is %v", all[0])
	}
}

// intercepted is a Cluster whose requests a test can disturb.
type intercepted struct {
	*recordstest.Cluster
	// create is called before a record is created. updated and deleted are called after an update or a deletion, and
	// return what the client sees.
	create           func()
	updated, deleted func(ctx context.Context) error
}

func (c *intercepted) Create(ctx context.Context, r *records.Record) error {
	if c.create != nil {
		c.create()
	}
	return c.Cluster.Create(ctx, r)
}

func (c *intercepted) Update(ctx context.Context, r *records.Record) error {
	if err := c.Cluster.Update(ctx, r); err != nil || c.updated == nil {
		return err
	}
	return c.updated(ctx)
}

func (c *intercepted) Delete(ctx context.Context, namespace, name string, revision uint64) error {
	if err := c.Cluster.Delete(ctx, namespace, name, revision); err != nil || c.deleted == nil {
		return err
	}
	return c.deleted(ctx)
}

// intercept replaces replica a by one with an intercepted Cluster.
func (c *cluster) intercept() *intercepted {
	i := &intercepted{Cluster: c.records}
	c.a = records.NewStore(records.Workspaces(i, "a", "coder-system", clock.RealClock{}))
	c.a.WriteWith(c.coder)
	return i
}

// TestALostResponseLeavesNoClaim covers a claim that is written although its response is lost, and one
// whose client disconnects meanwhile. The other replicas must not wait for a change that is never made.
func TestALostResponseLeavesNoClaim(t *testing.T) {
	for name, lost := range map[string]func(ctx context.Context) error{
		"the response is lost":    func(context.Context) error { return errors.New("connection reset by peer") },
		"the client disconnected": context.Context.Err,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			disturbed := c.intercept()
			if err := c.a.Create(t.Context(), key, workspace("zero"), nil, 0); err != nil {
				t.Fatal(err)
			}
			ctx, disconnect := context.WithCancel(t.Context())
			defer disconnect()
			told := c.coder.reported
			disturbed.updated = func(inner context.Context) error {
				disturbed.updated = nil
				if !strings.HasPrefix(c.records.All()[0].Claim, "a/") {
					t.Error("the first update is not that of the claim")
				}
				disconnect()
				return lost(inner)
			}
			if err := label(ctx, c.a, "one"); err == nil {
				t.Error("the write succeeded")
			}
			if claim := c.records.All()[0].Claim; claim != "" || c.coder.reported != told {
				t.Errorf("the claim %q is left; Coder was told %d times", claim, c.coder.reported-told)
			}
		})
	}
}

// TestACreatedObjectThatCannotBeRead covers a creation of which only the read after it fails: a client
// that tried again automatically would get a conflict with its own object.
func TestACreatedObjectThatCannotBeRead(t *testing.T) {
	c := newCluster(t)
	c.coder.write = func(ctx context.Context, _, _ records.Object) (records.Object, error) {
		pending := &metadata.Record{ControlPlane: plane, Kind: "CoderWorkspace", Name: "coder.ada.dev"}
		pending, err := records.NewKeeper(c.a).Put(ctx, pending)
		if err != nil {
			return nil, err
		}
		if _, err := records.NewKeeper(c.a).Bind(ctx, pending, "1"); err != nil {
			return nil, err
		}
		return nil, apierrors.NewTooManyRequests("too many requests to Coder", 1)
	}
	err := c.a.Create(t.Context(), key, workspace("zero"), nil, 0)
	if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTimeout(err) || ok {
		t.Errorf("it is %v, to be tried again after %d seconds", err, seconds)
	}
}

// TestADeletionWhoseRevisionIsNotKnown covers a deletion after which kube-apiserver does not respond any more.
func TestADeletionWhoseRevisionIsNotKnown(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	disturbed := c.intercept()
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	disturbed.deleted = func(context.Context) error {
		c.records.Away(errors.New("connection refused"))
		return nil
	}
	everything := func(context.Context, runtime.Object) error { return nil }
	if err := c.a.Delete(ctx, key, &aggregationv1alpha1.CoderWorkspace{}, nil, everything, nil, storage.DeleteOptions{}); err != nil {
		t.Errorf("the object is gone, and the answer is %v", err)
	}
}

// TestAnotherReplicaGivesUpACreation covers a creation of a name that another replica was creating at
// the same time, and that Coder refused to it: the object does not exist.
func TestAnotherReplicaGivesUpACreation(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	disturbed := c.intercept()
	other := &records.Record{Namespace: "team", Name: "coder.ada.dev"}
	other.ControlPlane, other.Claim = "coder", "b/1"
	attempts := 0
	disturbed.create = func() {
		if attempts++; attempts == 1 {
			if err := c.records.Create(ctx, other); err != nil {
				t.Error(err)
			}
		}
	}
	c.a.WriteWith(writer(func(ctx context.Context, _, wanted records.Object) (records.Object, error) {
		kept := &metadata.Record{ControlPlane: plane, Kind: "CoderWorkspace", Name: "coder.ada.dev", Labels: map[string]string{"a": "zero"}}
		if _, err := records.NewKeeper(c.a).Put(ctx, kept); err != nil {
			return nil, err
		}
		err := coderd.BeforeChange(ctx)
		if err != nil && attempts == 1 {
			return nil, errors.Join(err, c.records.Delete(t.Context(), other.Namespace, other.Name, other.Revision))
		}
		return wanted, err
	}))
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil || attempts != 2 {
		t.Errorf("it is %v after %d attempts", err, attempts)
	}
}

// TestKubeAPIServerIsAway checks that an unavailable kube-apiserver is never reported as NotFound,
// and that a change that cannot be recorded is not sent to Coder.
func TestKubeAPIServerIsAway(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	reported := c.coder.reported
	c.records.Away(errors.New("connection refused"))
	for name, err := range map[string]error{
		"get":    c.a.Get(ctx, key, storage.GetOptions{}, &aggregationv1alpha1.CoderWorkspace{}),
		"list":   c.a.GetList(ctx, "/aggregation.coder.com/coderworkspaces/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &aggregationv1alpha1.CoderWorkspaceList{}),
		"update": label(ctx, c.a, "one"),
		"create": c.a.Create(ctx, key+"2", workspace("zero"), nil, 0),
	} {
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := apierrors.SuggestsClientDelay(err); !ok {
			t.Errorf("%s: without Retry-After", name)
		}
	}
	if _, err := c.a.GetCurrentResourceVersion(ctx); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a consistent read: %v", err)
	}
	if c.coder.reported != reported {
		t.Error("Coder was told of a write that could not be recorded")
	}
}

// TestFilesOfTemplates checks that files are stored once, separately from the records, and are
// shared in memory.
func TestFilesOfTemplates(t *testing.T) {
	r := recordstest.New(t)
	ctx := t.Context()
	r.Templates.WriteWith(&coder{})
	const key = "/aggregation.coder.com/codertemplates/team/coder.docker"
	random := strings.Builder{}
	for i := range 60_000 {
		random.WriteString(time.Unix(int64(i*7919), 0).UTC().Format(time.RFC3339))
	}
	files := map[string]string{"main.tf": random.String(), "README.md": "# docker"}
	tmpl := &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "coder.docker", UID: "2"},
		Spec:       aggregationv1alpha1.CoderTemplateSpec{Files: files},
	}
	if err := r.Templates.Create(ctx, key, tmpl, nil, 0); err != nil {
		t.Fatal(err)
	}
	parts := len(r.Cluster("CoderTemplateSource").All())
	record := r.Cluster("CoderTemplate").All()[0]
	if parts == 0 || len(record.Object) > 10_000 || len(strings.Fields(record.Files)) != parts {
		t.Fatalf("%d parts, a record of %d bytes that names %q", parts, len(record.Object), record.Files)
	}
	for i := range 3 {
		if err := r.Templates.GuaranteedUpdate(ctx, key, &aggregationv1alpha1.CoderTemplate{}, false, nil, func(in runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			out := in.(*aggregationv1alpha1.CoderTemplate)
			out.Spec.DisplayName = strings.Repeat("x", i+1)
			return out, nil, nil
		}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if now := len(r.Cluster("CoderTemplateSource").All()); now != parts {
		t.Errorf("%d parts after changes of something else, %d before", now, parts)
	}
	other := r.Replica()
	read := &aggregationv1alpha1.CoderTemplate{}
	if err := other.Templates.Get(ctx, key, storage.GetOptions{}, read); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(read.Spec.Files, files) || read.Spec.DisplayName != "xxx" {
		t.Errorf("another replica reads %q with %d files", read.Spec.DisplayName, len(read.Spec.Files))
	}
	sweep(t, r, parts)
}

const dockerKey = "/aggregation.coder.com/codertemplates/team/coder.docker"

func docker() *aggregationv1alpha1.CoderTemplate {
	return &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "coder.docker", UID: "2"},
		Spec:       aggregationv1alpha1.CoderTemplateSpec{Files: map[string]string{"main.tf": "# docker"}},
		Status:     aggregationv1alpha1.CoderTemplateStatus{Source: &aggregationv1alpha1.TemplateSource{Inline: true}},
	}
}

// losePart creates a template, and deletes a part of its files by hand.
func losePart(t *testing.T, r *recordstest.Records) *recordstest.Cluster {
	t.Helper()
	r.Templates.WriteWith(&coder{})
	if err := r.Templates.Create(t.Context(), dockerKey, docker(), nil, 0); err != nil {
		t.Fatal(err)
	}
	cluster := r.Cluster("CoderTemplateSource")
	part := cluster.All()[0]
	if err := cluster.Delete(t.Context(), part.Namespace, part.Name, part.Revision); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// shownDocker reads the template, and checks the number of its files.
func shownDocker(t *testing.T, r *recordstest.Records, want int) *records.Entry {
	t.Helper()
	if err := r.Templates.Learn(t.Context(), dockerKey); err != nil {
		t.Fatal(err)
	}
	entry := r.Templates.Table.Get(dockerKey)
	tmpl := entry.Object.(*aggregationv1alpha1.CoderTemplate)
	if len(tmpl.Spec.Files) != want || (tmpl.Status.Source != nil) != (want > 0) {
		t.Errorf("it has %d files, want %d, and the source %+v", len(tmpl.Spec.Files), want, tmpl.Status.Source)
	}
	return entry
}

// TestAPartCannotBeRead checks that a watch continues if a part of the files cannot be read for a
// moment, and delivers the template then.
func TestAPartCannotBeRead(t *testing.T) {
	r := recordstest.New(t)
	r.Templates.WriteWith(&coder{})
	if err := r.Templates.Create(t.Context(), dockerKey, docker(), nil, 0); err != nil {
		t.Fatal(err)
	}
	parts := r.Cluster("CoderTemplateSource")
	parts.Away(apierrors.NewInternalError(errors.New("etcdserver: leader changed")))
	lines := make(chan string, 10)
	logger := funcr.New(func(_, line string) { lines <- line }, funcr.Options{})
	other := records.NewStore(records.Templates(r.Cluster("CoderTemplate"), parts, "other", "coder-system", clock.RealClock{}))
	w, err := other.Watch(klog.NewContext(t.Context(), logger), "/aggregation.coder.com/codertemplates/",
		storage.ListOptions{ResourceVersion: "1", Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	select {
	case line := <-lines:
		if !strings.Contains(line, "leader changed") {
			t.Errorf("the log has %s", line)
		}
	case event := <-w.ResultChan():
		t.Fatalf("the watch delivers %s %+v", event.Type, event.Object)
	}
	parts.Away(nil)
	event := <-w.ResultChan()
	if tmpl, ok := event.Object.(*aggregationv1alpha1.CoderTemplate); !ok || event.Type != watch.Added || len(tmpl.Spec.Files) != 1 {
		t.Errorf("then the watch delivers %s %+v", event.Type, event.Object)
	}
}

// TestAPartCannotBeReadForLong checks that one template whose files cannot be read does not keep the others
// from lists, and is served with its files again afterwards.
func TestAPartCannotBeReadForLong(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, time.November, 28, 12, 0, 0, 0, time.UTC))
	r := recordstest.NewWithClock(t, clock)
	r.Templates.WriteWith(&coder{})
	if err := r.Templates.Create(t.Context(), dockerKey, docker(), nil, 0); err != nil {
		t.Fatal(err)
	}
	parts := r.Cluster("CoderTemplateSource")
	parts.Away(apierrors.NewInternalError(errors.New("unable to transform the value")))
	other := records.NewStore(records.Templates(r.Cluster("CoderTemplate"), parts, "other", "coder-system", clock))
	list := func() ([]aggregationv1alpha1.CoderTemplate, error) {
		found := &aggregationv1alpha1.CoderTemplateList{}
		err := other.GetList(t.Context(), "/aggregation.coder.com/codertemplates/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, found)
		return found.Items, err
	}
	for range 2 {
		if _, err := list(); !apierrors.IsServiceUnavailable(err) {
			t.Fatalf("at first the error is %v", err)
		}
		clock.SetTime(clock.Now().Add(7 * time.Second))
	}
	clock.SetTime(clock.Now().Add(2 * time.Second))
	found, err := list()
	if err != nil || len(found) != 1 || len(found[0].Spec.Files) > 0 || found[0].Status.Source != nil {
		t.Errorf("after 16 s: %v %+v", err, found)
	}
	parts.Away(nil)
	if found, err = list(); err != nil || len(found) != 1 || len(found[0].Spec.Files) != 1 {
		t.Errorf("when it can be read again: %v %+v", err, found)
	}
	parts.Away(apierrors.NewInternalError(errors.New("etcdserver: leader changed")))
	if _, err := list(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a later failure counts from its own beginning: %v", err)
	}
}

// lateGet is a Cluster that calls during between the answer to a Get and its arrival.
type lateGet struct {
	records.Cluster
	during func()
}

func (l *lateGet) Get(ctx context.Context, namespace, name, resourceVersion string) (*records.Record, error) {
	record, err := l.Cluster.Get(ctx, namespace, name, resourceVersion)
	if during := l.during; during != nil {
		l.during = nil
		during()
	}
	return record, err
}

// TestLearnDuringACreation checks that a late "not found" does not remove a record that was created and
// seen in the meantime.
func TestLearnDuringACreation(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	late := &lateGet{Cluster: c.records}
	store := records.NewStore(records.Workspaces(late, "late", "coder-system", clock.RealClock{}))
	late.during = func() {
		if err := c.b.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
			t.Error(err)
		}
		if err := store.Learn(ctx, key); err != nil {
			t.Error(err)
		}
	}
	if err := store.Learn(ctx, key); err != nil {
		t.Fatal(err)
	}
	if store.Table.Get(key) == nil {
		t.Error("the created object is not known any more")
	}
}

// TestALostPartIsWrittenAgain covers a lost part if all replicas have restarted since.
func TestALostPartIsWrittenAgain(t *testing.T) {
	r := recordstest.New(t)
	ctx := t.Context()
	cluster := losePart(t, r)
	leader, other := r.Replica(), r.Replica()
	shownDocker(t, other, 0)
	entry := shownDocker(t, leader, 0)
	if err := leader.Templates.Propose(ctx, records.Proposal{Key: dockerKey, Expect: entry.Revision, Object: docker(), Natural: "coder.docker"}); err != nil {
		t.Fatal(err)
	}
	shownDocker(t, leader, 1)
	shownDocker(t, other, 1)
	if left := len(cluster.All()); left != 1 {
		t.Errorf("there are %d parts", left)
	}
}

// TestALostPartThatIsInMemory covers a lost part whose files the leader has in memory, and a leader
// that ended while it wrote a part again.
func TestALostPartThatIsInMemory(t *testing.T) {
	leader := recordstest.New(t)
	cluster := losePart(t, leader)
	record := func() records.Record { return leader.Cluster("CoderTemplate").All()[0] }
	before, other := record(), leader.Replica()
	shownDocker(t, other, 0)
	sweep := func() {
		t.Helper()
		if err := leader.Templates.Sweep(t.Context(), time.Now(), map[types.NamespacedName]time.Time{}); err != nil {
			t.Fatal(err)
		}
		if left := len(cluster.All()); left != 1 || record().State != before.State || record().Files != before.Files {
			t.Errorf("there are %d parts, and the record is %+v, want %+v", left, record(), before)
		}
	}
	sweep()
	shownDocker(t, other, 1)
	ended := record()
	ended.State = "Repairing"
	if err := leader.Cluster("CoderTemplate").Update(t.Context(), &ended); err != nil {
		t.Fatal(err)
	}
	shownDocker(t, leader, 1)
	sweep()
	repaired := record().Revision
	if sweep(); record().Revision != repaired {
		t.Error("a record is written that has all of its parts")
	}
}

// sweep deletes the template, and checks that its files are deleted after an hour.
func sweep(t *testing.T, r *recordstest.Records, parts int) {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	unused := map[types.NamespacedName]time.Time{}
	entry := r.Templates.Table.Of(types.NamespacedName{Namespace: "team"})[0]
	for i, step := range []struct {
		after time.Duration
		left  int
	}{{0, parts}, {2 * time.Hour, parts}, {3 * time.Hour, parts}, {5 * time.Hour, 0}} {
		if i == 2 {
			if err := r.Templates.Propose(ctx, records.Proposal{Key: entry.Key, Expect: entry.Revision}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Templates.Sweep(ctx, now.Add(step.after), unused); err != nil {
			t.Fatal(err)
		}
		if left := r.Cluster("CoderTemplateSource").All(); len(left) != step.left {
			t.Errorf("after %v there are %d parts, want %d", step.after, len(left), step.left)
		}
	}
}

// TestUserNamedLikeAHeartbeat checks that a user whose name has the prefix of heartbeats is listed and
// watched, and that the record is not deleted as that of a stopped replica.
func TestUserNamedLikeAHeartbeat(t *testing.T) {
	r := recordstest.New(t)
	ctx, now := t.Context(), time.Now()
	r.Users.WriteWith(&coder{})
	const users = "/aggregation.coder.com/coderusers/"
	for _, name := range []string{"heartbeat-bob", "zoe"} {
		user := &aggregationv1alpha1.CoderUser{ObjectMeta: metav1.ObjectMeta{Namespace: "coder-system", Name: name, UID: types.UID(name)}}
		if err := r.Users.Create(ctx, users+"coder-system/"+name, user, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, after := range []time.Duration{0, 2 * time.Hour} {
		if err := r.Users.SweepHeartbeats(ctx, now.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	other := records.NewStore(records.Users(r.Cluster("CoderUser"), "other", "coder-system", clock.RealClock{}))
	options := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	list := &aggregationv1alpha1.CoderUserList{}
	if err := other.GetList(ctx, users, options, list); err != nil || len(list.Items) != 2 {
		t.Errorf("a list has %d users, want 2: %v", len(list.Items), err)
	}
	options.ResourceVersion = "1"
	w, err := other.Watch(ctx, users, options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if event := <-w.ResultChan(); event.Type != watch.Added || event.Object.(*aggregationv1alpha1.CoderUser).Name != "heartbeat-bob" {
		t.Errorf("the first event is %s %+v", event.Type, event.Object)
	}
}

// TestHeartbeatsOfKilledReplicas checks that their heartbeats are deleted after an hour. A replica
// that was only paused, and has not seen that, must start again.
func TestHeartbeatsOfKilledReplicas(t *testing.T) {
	c := newCluster(t)
	ctx, now := t.Context(), time.Now()
	beat := func(s *records.Store) uint64 {
		t.Helper()
		revision, err := s.GetCurrentResourceVersion(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return revision
	}
	if err := c.a.Create(ctx, key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	beat(c.a)
	before := beat(c.b)
	for _, step := range []struct {
		after time.Duration
		beats bool
		left  string
	}{
		{0, false, "coder.ada.dev heartbeat-a heartbeat-b"},
		{50 * time.Minute, true, "coder.ada.dev heartbeat-a heartbeat-b"},
		{70 * time.Minute, false, "coder.ada.dev heartbeat-a heartbeat-b"},
		{2 * time.Hour, false, "coder.ada.dev heartbeat-a heartbeat-b"},
		{131 * time.Minute, false, "coder.ada.dev heartbeat-a"},
	} {
		if err := c.a.SweepHeartbeats(ctx, now.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		if step.beats {
			before = beat(c.b)
		}
		var left []string
		for _, record := range c.records.All() {
			left = append(left, record.Name)
		}
		slices.Sort(left)
		if got := strings.Join(left, " "); got != step.left {
			t.Errorf("after %s there are %s, want %s", step.after, got, step.left)
		}
	}
	if now, err := c.b.GetCurrentResourceVersion(ctx); err == nil || !strings.Contains(err.Error(), "this replica must start again") {
		t.Errorf("it goes on at revision %d after %d: %v", now, before, err)
	}
}

// TestCreatedFromAnother covers a creation for which Coder renames a workspace that it has built in
// advance, with a further change in Coder after the record has the id. The record of the other name is removed.
func TestCreatedFromAnother(t *testing.T) {
	ctx := t.Context()
	c := newCluster(t)
	prebuilt := workspace("zero")
	prebuilt.Name, prebuilt.UID, prebuilt.Labels = "coder.prebuilds.one", "1", map[string]string{aggregationv1alpha1.LabelControlPlaneName: plane.Name}
	if err := c.a.Propose(ctx, records.Proposal{Key: c.a.Key("team", prebuilt.Name), Object: prebuilt, Natural: prebuilt.Name}); err != nil {
		t.Fatal(err)
	}
	keeper := records.NewKeeper(c.a)
	c.coder.write = func(ctx context.Context, _, wanted records.Object) (records.Object, error) {
		pending, err := keeper.Put(ctx, &metadata.Record{ControlPlane: plane, Kind: "CoderWorkspace", Name: wanted.GetName(), Labels: map[string]string{"team": "blue"}})
		if err != nil {
			return nil, err
		}
		if err := coderd.BeforeChange(ctx); err != nil {
			return nil, err
		}
		if _, err := keeper.Bind(ctx, pending, "1"); err != nil {
			return nil, err
		}
		made := wanted.DeepCopyObject().(records.Object)
		made.SetUID("1")
		return made, coderd.BeforeChange(ctx)
	}
	wanted := workspace("one")
	wanted.UID, wanted.Labels = "", map[string]string{aggregationv1alpha1.LabelControlPlaneName: plane.Name}
	if err := c.a.Create(ctx, key, wanted, nil, 0); err != nil {
		t.Fatal(err)
	}
	if all := c.records.All(); len(all) != 1 || all[0].Name != "coder.ada.dev" {
		t.Errorf("the records are %+v", all)
	}
	if twins := c.a.Table.Twins(plane, "1"); twins != nil {
		t.Errorf("the twins are %v", twins)
	}
}

// TestAPausedWriter checks that the write of a client sends nothing to Coder after a pause in which another replica may
// have taken its claim as abandoned, and that the other replica can write then.
func TestAPausedWriter(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))
	c := newCluster(t)
	c.a = records.NewStore(records.Workspaces(c.records, "a", "coder-system", now))
	c.a.WriteWith(c.coder)
	if err := c.a.Create(t.Context(), key, workspace("zero"), nil, 0); err != nil {
		t.Fatal(err)
	}
	c.coder.write = func(ctx context.Context, _, wanted records.Object) (records.Object, error) {
		now.Step(2 * time.Minute)
		return wanted, coderd.BeforeChange(ctx)
	}
	if err := label(t.Context(), c.a, "one"); !apierrors.IsTimeout(err) {
		t.Errorf("the second request to Coder: %v, want 504", err)
	}
	c.coder.write = nil
	if err := label(t.Context(), c.b, "two"); err != nil {
		t.Errorf("a write of another replica: %v", err)
	}
}
