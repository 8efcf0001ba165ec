package metadatatest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// Records are records in memory. Whoever changes one of those that they give,
// which are shared, fails the test.
type Records struct {
	*metadata.Store

	t       testing.TB
	cluster *cluster

	mu    sync.Mutex
	given map[*metadata.Record]string
}

var _ metadata.Records = (*Records)(nil)

// New makes records that are ready at once.
func New(t testing.TB) *Records {
	t.Helper()
	return NewWithClock(t, clock.RealClock{})
}

// NewWithClock makes records that are made at the times of a clock.
func NewWithClock(t testing.TB, passive clock.PassiveClock) *Records {
	t.Helper()
	return join(t, newCluster(passive))
}

// Replica gives the records of another replica on the same cluster.
func (r *Records) Replica() *Records {
	r.t.Helper()
	return join(r.t, r.cluster)
}

func join(t testing.TB, c *cluster) *Records {
	t.Helper()
	r := &Records{Store: metadata.NewStore(metadata.Config{Cluster: c, ControlPlaneUID: controlPlaneUID}), t: t, cluster: c, given: map[*metadata.Record]string{}}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- r.Run(ctx) }()
	<-r.Synced()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.check()
	})
	return r
}

// Cluster is where the records are. Writing to it is what others do by hand.
func (r *Records) Cluster() metadata.Cluster { return r.cluster }

// controlPlaneUID knows every control plane that has a name.
func controlPlaneUID(controlPlane types.NamespacedName) (types.UID, bool) {
	return "11111111-0000-0000-0000-000000000000", controlPlane.Name != ""
}

// FailWrite has the n-th write to the cluster from now fail: 1 is the next. It
// does not arrive. Put and Delete are one write each, Bind is two.
func (r *Records) FailWrite(n int, err error) { r.cluster.fail(n, false, err) }

// FailAfterWrite has the n-th write to the cluster from now arrive and yet fail,
// as when the answer is lost.
func (r *Records) FailAfterWrite(n int, err error) { r.cluster.fail(n, true, err) }

// HoldWatch has no replica be told of anything until the result is called. What a
// replica writes itself it knows all the same.
func (r *Records) HoldWatch() (release func()) {
	c := r.cluster
	c.mu.Lock()
	c.held = true
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		waiting := c.waiting
		c.held, c.waiting = false, nil
		c.mu.Unlock()
		for _, tell := range waiting {
			tell()
		}
	}
}

// Edit changes the record of an object as a person with kubectl edit does.
func (r *Records) Edit(controlPlane types.NamespacedName, uid types.UID, edit func(*metadata.Record)) {
	r.t.Helper()
	resource := r.resource(controlPlane, uid)
	record, err := resource.Decode()
	if err != nil {
		r.t.Fatal(err)
	}
	edit(record)
	edited, err := metadata.Encode(record)
	if err != nil {
		r.t.Fatal(err)
	}
	r.EditSpec(controlPlane, uid, string(edited.Spec))
}

// EditSpec writes anything into the record of an object.
func (r *Records) EditSpec(controlPlane types.NamespacedName, uid types.UID, spec string) {
	r.t.Helper()
	resource := r.resource(controlPlane, uid)
	resource.Spec = json.RawMessage(spec)
	c := r.cluster
	c.mu.Lock()
	tell := c.store(types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name}, resource)
	c.mu.Unlock()
	c.tell(tell)
}

// Remove removes the record of an object as a person with kubectl delete does.
func (r *Records) Remove(controlPlane types.NamespacedName, uid types.UID) {
	r.t.Helper()
	resource := r.resource(controlPlane, uid)
	c := r.cluster
	c.mu.Lock()
	delete(c.resources, types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name})
	resource.ResourceVersion = c.next()
	c.mu.Unlock()
	c.tell(func(feed metadata.Feed) { feed.Removed(context.Background(), resource.DeepCopy()) })
}

// resource finds the resource of an object in the cluster.
func (r *Records) resource(controlPlane types.NamespacedName, uid types.UID) *metadata.Resource {
	r.t.Helper()
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	for _, prefix := range []string{"ws-", "tpl-"} {
		if resource := r.cluster.resources[types.NamespacedName{Namespace: controlPlane.Namespace, Name: prefix + string(uid)}]; resource != nil {
			return resource.DeepCopy()
		}
	}
	r.t.Fatalf("there is no record of %s in namespace %s", uid, controlPlane.Namespace)
	return nil
}

// Writes are the writes that arrived, such as "create team/ws-<id>".
func (r *Records) Writes() []string {
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	return slices.Clone(r.cluster.writes)
}

// All are the records in the cluster, by name of their resource, as a person
// would see them.
func (r *Records) All() []*metadata.Record {
	r.t.Helper()
	r.cluster.mu.Lock()
	defer r.cluster.mu.Unlock()
	var all []*metadata.Record
	for _, resource := range r.cluster.listing().Resources {
		record, err := resource.Decode()
		if err != nil {
			r.t.Fatalf("%s: %v", resource.Name, err)
		}
		all = append(all, record)
	}
	return all
}

// Get implements metadata.Records.
func (r *Records) Get(controlPlane types.NamespacedName, uid types.UID) (*metadata.Record, bool) {
	record, ok := r.Store.Get(controlPlane, uid)
	return r.give(record), ok
}

// List implements metadata.Records. The order is that of names here, so that
// tests of others are repeatable.
func (r *Records) List(controlPlane types.NamespacedName) []*metadata.Record {
	records := r.Store.List(controlPlane)
	slices.SortFunc(records, func(a, b *metadata.Record) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.UID, b.UID))
	})
	for _, record := range records {
		r.give(record)
	}
	return records
}

// PendingFor implements metadata.Records.
func (r *Records) PendingFor(controlPlane types.NamespacedName, kind, name string) (*metadata.Record, bool) {
	record, ok := r.Store.PendingFor(controlPlane, kind, name)
	return r.give(record), ok
}

// Put implements metadata.Records.
func (r *Records) Put(ctx context.Context, record *metadata.Record) (*metadata.Record, error) {
	out, err := r.Store.Put(ctx, record)
	return r.give(out), err
}

// Bind implements metadata.Records.
func (r *Records) Bind(ctx context.Context, pending *metadata.Record, uid types.UID) (*metadata.Record, error) {
	out, err := r.Store.Bind(ctx, pending, uid)
	return r.give(out), err
}

// OnChange implements metadata.Records.
func (r *Records) OnChange(changed func(*metadata.Record)) {
	r.Store.OnChange(func(record *metadata.Record) { changed(r.give(record)) })
}

// give remembers what a record is when it is given away.
func (r *Records) give(record *metadata.Record) *metadata.Record {
	if record == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.given[record]; !ok {
		r.given[record] = fingerprint(r.t, record)
	}
	return record
}

func (r *Records) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for record, was := range r.given {
		if is := fingerprint(r.t, record); is != was {
			r.t.Errorf("somebody changed a shared record of %s %q; make a DeepCopy first\nwas %s\nis  %s", record.Kind, record.Name, was, is)
		}
	}
}

func fingerprint(t testing.TB, record *metadata.Record) string {
	raw, err := json.Marshal(record)
	if err != nil {
		t.Errorf("a record of %s %q was made such that it cannot be written: %v", record.Kind, record.Name, err)
	}
	return string(raw)
}
