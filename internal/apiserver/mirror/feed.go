package mirror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// commitsAtOnce is how many objects are committed together.
	commitsAtOnce = 100
	// soon is when something is tried again that another one was in the way of.
	soon = 250 * time.Millisecond
)

// feed brings the items of one kind from one control plane into the log.
type feed[Item any] struct {
	*stock[Item]
	plane   *plane
	queue   *queue
	breaker *breaker
	settle  *settler[Item]
}

func newFeed[Item any](p *plane, s *stock[Item]) *feed[Item] {
	f := &feed[Item]{
		stock: s, plane: p,
		queue:   newQueue(&p.config.Timing),
		breaker: newBreaker(p.config.Timing.ConfirmAfter),
	}
	f.settle = newSettler(f)
	return f
}

// kindFeed is a feed of any kind.
type kindFeed interface {
	kindName() string
	// tasks read and settle what is due.
	tasks() []*task
	tell()
	mark(id uuid.UUID, after time.Duration)
	desync(ctx context.Context) (done bool, err error)
	exists(record *metadata.Record) bool
}

func (f *feed[Item]) kindName() string { return f.kind }

func (f *feed[Item]) tasks() []*task {
	return []*task{newRefreshTask(f.plane, f), newSettleTask(f.plane, f)}
}

func (f *feed[Item]) tell() {
	f.plane.config.Metrics.counted(f.plane.name, f.kind, f.Store.Table.Count(f.plane.name), f.breaker.held())
}

// moment is a point in the order of what changes objects: the log's head, and how
// many objects were settled.
type moment struct{ head, settled uint64 }

func (f *feed[Item]) moment() moment {
	return moment{head: f.Store.Table.Sequence(), settled: f.settle.count.Load()}
}

// seen is an item that was read, and what became of it.
type seen[Item any] struct {
	item Item
	id   uuid.UUID
	// began is before it was read.
	began  moment
	record *metadata.Record
	// entry is what the log has of it, or nil, since a revision.
	entry  *records.Entry
	since  uint64
	object records.Object
	// key is where it is kept, natural the name that Coder's names give it now.
	key, natural string
}

// apply brings items into the log that were read when it had the given head. With
// hot they were asked for, so that they are settled too.
func (f *feed[Item]) apply(ctx context.Context, connection connections.Connection, items []Item, began moment, hot bool) error {
	for len(items) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(commitsAtOnce, len(items))
		if err := f.applyChunk(ctx, connection, items[:n], began, hot); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

func (f *feed[Item]) applyChunk(ctx context.Context, connection connections.Connection, items []Item, began moment, hot bool) error {
	batch := &batch[Item]{feed: f}
	defer batch.unlock()
	for _, item := range items {
		s := &seen[Item]{item: item, id: f.source.id(item), began: began}
		f.breaker.acquit(s.id)
		if err := f.compose(ctx, connection, s); err != nil {
			log.FromContext(ctx).Error(err, "Composing an object", "kind", f.kind, "id", s.id)
			f.queue.retry(s.id, f.plane.config.Clock.Now())
			continue
		}
		if !batch.lock(ctx, connection, s) {
			f.mark(s.id, soon)
			continue
		}
		batch.add(ctx, s)
	}
	if err := batch.commit(ctx); err != nil {
		return err
	}
	now := f.plane.config.Clock.Now()
	for _, s := range batch.done {
		f.queue.setBusy(s.id, f.source.busy(f.plane.name, s.item), now)
		// What went wrong is not tried again before its time, however often it is read.
		if hot || asks(s.record) && !f.queue.failing(s.id) {
			f.settle.push(s, now)
		}
	}
	return nil
}

// asks says that a record has something to bring on.
func asks(record *metadata.Record) bool {
	return record != nil && (len(record.Intent) > 0 || record.DeletionTimestamp != nil)
}

// mark has an object read again after a while.
func (f *feed[Item]) mark(id uuid.UUID, after time.Duration) {
	f.queue.mark(id, f.plane.config.Clock.Now().Add(after))
}

// compose makes the object of an item, without a lock.
func (f *feed[Item]) compose(ctx context.Context, connection connections.Connection, s *seen[Item]) error {
	s.entry, s.since = f.Store.Table.Find(f.plane.name, uidOf(s.id))
	s.record, _ = f.plane.config.Records.Get(f.plane.name, uidOf(s.id))
	return f.recompose(ctx, connection, s)
}

func (f *feed[Item]) recompose(ctx context.Context, connection connections.Connection, s *seen[Item]) error {
	var previous records.Object
	if s.entry != nil {
		previous = s.entry.Object
	}
	object, err := f.Kind.Object(ctx, connection, s.item, s.record, previous)
	if err != nil {
		return fmt.Errorf("making the %s of %s: %w", f.kind, s.id, err)
	}
	if controlPlaneOf(object) != f.plane.name || object.GetUID() != uidOf(s.id) {
		return fmt.Errorf("the %s %q has not the labels of control plane %s and the uid %s, so it would not be found again",
			f.kind, object.GetName(), f.plane.name, s.id)
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	s.object = object
	return f.name(s)
}

// errNameTaken says that an object that may be gone has the name of another one.
var errNameTaken = errors.New("another object still has its name")

// name gives an object the name that it has had first. A new one gets the name that
// Coder's names give it, unless an object has that which was renamed in Coder since:
// then its id is added, with two hyphens, which no name in Coder has.
func (f *feed[Item]) name(s *seen[Item]) error {
	table := f.Store.Table
	s.natural = s.object.GetName()
	s.key = f.key(s.object)
	if key, ok := table.KeyOf(f.plane.name, uidOf(s.id)); ok {
		s.key = key
	} else if occupant := table.Get(s.key); occupant != nil {
		if occupant.Natural == "" {
			// Coder gives a name once: the other one is gone, or was renamed just now.
			f.mark(idOf(occupant.Object), 0)
			return fmt.Errorf("the %s %q: %w", f.kind, s.natural, errNameTaken)
		}
		plain, id := s.key, s.id.String()
		// Another object that once had this name may have an id that begins alike.
		if s.key = objectname.WithID(plain, id[:8]); table.Get(s.key) != nil {
			s.key = objectname.WithID(plain, id)
		}
	}
	_, name := f.Store.Locate(s.key)
	s.object.SetName(name)
	return nil
}

// unchanged says that nothing of what an object was made of has changed, and that
// the log has nothing younger than what was read.
func (f *feed[Item]) unchanged(s *seen[Item]) bool {
	entry, since := f.Store.Table.Find(f.plane.name, uidOf(s.id))
	record, _ := f.plane.config.Records.Get(f.plane.name, uidOf(s.id))
	if revisionOf(entry) != revisionOf(s.entry) || since > s.began.head || versionOf(record) != versionOf(s.record) {
		return false
	}
	// Settling changes Coder and the record, and not the log.
	if f.settle.settledSince(s.id, s.began.settled) {
		return false
	}
	// The name may have been given to another object after the read.
	return f.Store.Table.Since(s.key) <= s.began.head
}

func revisionOf(entry *records.Entry) uint64 {
	if entry == nil {
		return 0
	}
	return entry.Revision
}

func versionOf(record *metadata.Record) string {
	if record == nil {
		return ""
	}
	return record.Version
}

// same says that a new object has nothing new.
func same(entry *records.Entry, next records.Object, natural string) bool {
	next.SetResourceVersion(entry.Object.GetResourceVersion())
	defer next.SetResourceVersion("")
	renamed := natural != next.GetName()
	return !entry.Damaged && (entry.Natural != "") == renamed && (!renamed || entry.Natural == natural) && equality.Semantic.DeepEqual(entry.Object, next)
}

// adopt gives an item without a record the one that was made before it, and the
// object what is in it. The key's lock is held.
func (f *feed[Item]) adopt(ctx context.Context, connection connections.Connection, s *seen[Item]) error {
	if s.record != nil || s.entry != nil {
		return nil
	}
	records := f.plane.config.Records
	// Coder was asked for the name before that record was made, and had nothing. And this
	// was read after it.
	pending, ok := records.PendingFor(f.plane.name, f.kind, s.object.GetName())
	if !ok {
		return nil
	}
	bound, err := records.Bind(ctx, pending, uidOf(s.id))
	if err != nil {
		return fmt.Errorf("adopting the metadata of %s %q: %w", f.kind, s.object.GetName(), err)
	}
	log.FromContext(ctx).Info("Adopting the metadata of an object whose creation was interrupted", "kind", f.kind, "name", s.object.GetName())
	if bound.Version != "" {
		s.record = bound
	}
	return f.recompose(ctx, connection, s)
}

// keepGeneration writes a generation that has grown into the record, before
// anybody sees it. An object without a record gets none for that: ten thousand
// workspaces that stop by themselves at night must cost the cluster nothing. Its
// generation is that of the log. The key's lock is held.
func (f *feed[Item]) keepGeneration(ctx context.Context, s *seen[Item]) error {
	generation := s.object.GetGeneration()
	if s.record == nil || generation <= max(1, s.record.Generation) {
		return nil
	}
	record := s.record.DeepCopy()
	record.Name, record.Generation = s.object.GetName(), generation
	kept, err := f.plane.config.Records.Put(ctx, record)
	if err != nil {
		return fmt.Errorf("keeping the generation of %s %q: %w", f.kind, s.object.GetName(), err)
	}
	s.record = kept
	return nil
}

// changedKeys are the keys of proposals that did not fit the log.
func changedKeys(err error) (map[string]bool, error) {
	if err == nil {
		return nil, nil
	}
	var changed *records.ChangedError
	if !errors.As(err, &changed) {
		return nil, err
	}
	keys := make(map[string]bool, len(changed.Keys))
	for _, key := range changed.Keys {
		keys[key] = true
	}
	return keys, nil
}
