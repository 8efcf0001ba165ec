package recordstest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
)

// first is the revision before the first write. Earlier revisions count as compacted.
const first = 1_000_000_000

// Etcd counts the revisions of all kinds.
type Etcd struct {
	mu       sync.Mutex
	revision uint64
}

// Cluster stores the records of one kind in memory.
type Cluster struct {
	etcd     *Etcd
	resource schema.GroupResource

	records map[types.NamespacedName]*records.Record
	events  []records.Event
	// more is closed at the next event.
	more chan struct{}
	// away is the error of every request, full that of every write.
	away, full error
	// refused has the errors of writes of single records, by their names.
	refused map[string]error
	// restores counts the calls of Restore.
	restores int
	// compacted is the revision before which the history is compacted.
	compacted uint64
}

var _ records.Cluster = (*Cluster)(nil)

// NewCluster returns an empty Cluster.
func NewCluster(etcd *Etcd, resource string) *Cluster {
	return &Cluster{
		etcd: etcd, resource: schema.GroupResource{Group: recordsv1alpha1.GroupVersion.Group, Resource: resource},
		records: map[types.NamespacedName]*records.Record{}, more: make(chan struct{}),
	}
}

// Away makes every request fail with the error, and ends the watches. Nil reverts that.
func (c *Cluster) Away(err error) {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	c.away = err
	c.wake()
}

// Full makes every write fail with the error, as a full etcd does. Reads succeed. Nil reverts that.
func (c *Cluster) Full(err error) {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	c.full = err
}

// Refuse makes every write and deletion of a record with this name fail with the error. Nil reverts that.
func (c *Cluster) Refuse(name string, err error) {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	if c.refused == nil {
		c.refused = map[string]error{}
	}
	c.refused[name] = err
}

const (
	// maxRequest is the largest record that etcd accepts, without the metadata that kube-apiserver adds.
	maxRequest = 1536<<10 - 4<<10
	// maxBody is the largest request that kube-apiserver accepts.
	maxBody = 3 << 20
)

// rejects returns the error of a write because of the content of the record.
func (c *Cluster) rejects(r *records.Record) error {
	if c.full != nil {
		return c.full
	}
	data, err := json.Marshal(r.RecordSpec)
	switch {
	case err != nil:
		return err
	case len(data) > maxBody:
		return apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	case len(data) > maxRequest:
		return apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
	}
	return c.refused[r.Name]
}

// Backup returns a copy of all records. Restore returns to it, as a restore of etcd from a backup does: it
// ends the watches, and the revisions continue from that of the backup plus skipped.
func (c *Cluster) Backup() (restore func(skipped uint64)) {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	revision, stored, events := c.etcd.revision, maps.Clone(c.records), slices.Clone(c.events)
	return func(skipped uint64) {
		c.etcd.mu.Lock()
		defer c.etcd.mu.Unlock()
		c.etcd.revision, c.records, c.events = revision+skipped, maps.Clone(stored), slices.Clone(events)
		c.restores++
		c.wake()
	}
}

// Compact drops the history, as etcd's compaction does.
func (c *Cluster) Compact() {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	c.compacted = c.etcd.revision
}

// All returns the records, sorted by their keys.
func (c *Cluster) All() []records.Record {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	return inOrder(c.records, "")
}

// Events returns all events in order. They must not be modified.
func (c *Cluster) Events() []records.Event {
	c.etcd.mu.Lock()
	defer c.etcd.mu.Unlock()
	return slices.Clip(c.events)
}

// inOrder returns the records of a namespace, or of all namespaces, sorted by their keys.
func inOrder(stored map[types.NamespacedName]*records.Record, namespace string) []records.Record {
	out := []records.Record{}
	for key, r := range stored {
		if namespace == "" || key.Namespace == namespace {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b records.Record) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (c *Cluster) wake() {
	close(c.more)
	c.more = make(chan struct{})
}

func (c *Cluster) notify(kind watch.EventType, r *records.Record) {
	c.etcd.revision++
	r.Revision = c.etcd.revision
	c.events = append(c.events, records.Event{Type: kind, Record: *r})
	c.wake()
}

func (c *Cluster) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.etcd.mu.Lock()
	c.etcd.revision = max(c.etcd.revision, first)
	if c.away != nil {
		defer c.etcd.mu.Unlock()
		return c.away
	}
	return nil
}

// Create implements records.Cluster.
func (c *Cluster) Create(ctx context.Context, r *records.Record) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	defer c.etcd.mu.Unlock()
	if err := c.rejects(r); err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	if c.records[key] != nil {
		return apierrors.NewAlreadyExists(c.resource, r.Name)
	}
	c.store(watch.Added, key, r)
	return nil
}

func (c *Cluster) store(kind watch.EventType, key types.NamespacedName, r *records.Record) {
	c.notify(kind, r)
	stored := *r
	c.records[key] = &stored
}

// Update implements records.Cluster.
func (c *Cluster) Update(ctx context.Context, r *records.Record) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	defer c.etcd.mu.Unlock()
	if err := c.rejects(r); err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	if err := c.expect(key, r.Revision); err != nil {
		return err
	}
	if c.records[key].RecordSpec == r.RecordSpec {
		return nil
	}
	c.store(watch.Modified, key, r)
	return nil
}

func (c *Cluster) expect(key types.NamespacedName, revision uint64) error {
	known := c.records[key]
	switch {
	case known == nil:
		return apierrors.NewNotFound(c.resource, key.Name)
	case revision != known.Revision:
		return apierrors.NewConflict(c.resource, key.Name, errors.New("it has another revision"))
	}
	return nil
}

// Delete implements records.Cluster.
func (c *Cluster) Delete(ctx context.Context, namespace, name string, revision uint64) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	defer c.etcd.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if err := c.expect(key, revision); err != nil {
		return err
	}
	if err := c.refused[name]; err != nil {
		return err
	}
	gone := *c.records[key]
	delete(c.records, key)
	c.notify(watch.Deleted, &gone)
	return nil
}

// Get implements records.Cluster.
func (c *Cluster) Get(ctx context.Context, namespace, name, _ string) (*records.Record, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	defer c.etcd.mu.Unlock()
	known := c.records[types.NamespacedName{Namespace: namespace, Name: name}]
	if known == nil {
		return nil, apierrors.NewNotFound(c.resource, name)
	}
	out := *known
	return &out, nil
}

// Revision implements records.Cluster.
func (c *Cluster) Revision(ctx context.Context, namespace, name string) (uint64, error) {
	record, err := c.Get(ctx, namespace, name, "")
	if err != nil {
		return 0, err
	}
	return record.Revision, nil
}

// past returns the records of a past revision.
func (c *Cluster) past(revision uint64) map[types.NamespacedName]*records.Record {
	stored := map[types.NamespacedName]*records.Record{}
	for _, event := range c.events[:c.after(revision)] {
		key := types.NamespacedName{Namespace: event.Record.Namespace, Name: event.Record.Name}
		if stored[key] = &event.Record; event.Type == watch.Deleted {
			delete(stored, key)
		}
	}
	return stored
}

// after returns the index of the first event after a revision.
func (c *Cluster) after(revision uint64) int {
	i, _ := slices.BinarySearchFunc(c.events, revision+1, func(e records.Event, revision uint64) int { return cmp.Compare(e.Record.Revision, revision) })
	return i
}

// revisionOf returns the number of a resource version, or 0 if it is empty.
func revisionOf(resourceVersion string) (revision uint64) {
	for _, digit := range resourceVersion {
		revision = 10*revision + uint64(digit-'0')
	}
	return revision
}

// List implements records.Cluster. Only the first page of a list can be one of a past revision. It
// rejects a list without a limit, which could be of any size.
func (c *Cluster) List(ctx context.Context, query records.Query) (*records.List, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	defer c.etcd.mu.Unlock()
	if query.Limit == 0 {
		return nil, apierrors.NewBadRequest("a list needs a limit")
	}
	stored, revision := c.records, c.etcd.revision
	if query.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		revision = revisionOf(query.ResourceVersion)
		if revision < max(first, c.compacted) {
			return nil, apierrors.NewResourceExpired("too old resource version")
		}
		stored = c.past(revision)
	}
	found := slices.DeleteFunc(inOrder(stored, query.Namespace), func(r records.Record) bool { return r.Namespace+"/"+r.Name <= query.Continue })
	page := &records.List{Records: found, Revision: revision}
	if more := int64(len(found)) - query.Limit; more > 0 {
		last := found[query.Limit-1]
		page.Records, page.Continue, page.Remaining = found[:query.Limit], last.Namespace+"/"+last.Name, more
	}
	return page, nil
}

// Watch implements records.Cluster.
func (c *Cluster) Watch(ctx context.Context, query records.Query) (records.Stream, error) {
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	defer c.etcd.mu.Unlock()
	from := revisionOf(query.ResourceVersion)
	if from != 0 && from < c.compacted {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	if from > c.etcd.revision {
		return nil, storage.NewTooLargeResourceVersionError(from, c.etcd.revision, 1)
	}
	return &stream{ctx: ctx, cluster: c, next: c.after(from), restores: c.restores}, nil
}

type stream struct {
	ctx     context.Context //nolint:containedctx // It is that of the watch.
	cluster *Cluster
	next    int
	// restores is that of the cluster when the watch began.
	restores int
}

// Close implements records.Stream.
func (*stream) Close() {}

// Next implements records.Stream.
func (s *stream) Next() (records.Event, error) {
	for {
		s.cluster.etcd.mu.Lock()
		more, away := s.cluster.more, s.cluster.away
		if s.restores != s.cluster.restores {
			s.cluster.etcd.mu.Unlock()
			return records.Event{}, io.ErrUnexpectedEOF
		}
		if away == nil && s.next < len(s.cluster.events) {
			event := s.cluster.events[s.next]
			s.next++
			s.cluster.etcd.mu.Unlock()
			return event, nil
		}
		s.cluster.etcd.mu.Unlock()
		if away != nil {
			return records.Event{}, io.ErrUnexpectedEOF
		}
		select {
		case <-more:
		case <-s.ctx.Done():
			return records.Event{}, s.ctx.Err()
		}
	}
}
