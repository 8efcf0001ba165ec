package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// commitsAtOnce is the maximum number of objects in one commit.
	commitsAtOnce = 100
	// soon is the delay before an operation is retried that conflicted with another one.
	soon = 250 * time.Millisecond
)

// feed writes the items of one kind from one control plane into the records.
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
		breaker: &breaker{confirmAfter: p.config.Timing.ConfirmAfter, suspects: map[uuid.UUID]time.Time{}},
	}
	f.settle = &settler[Item]{feed: f, items: map[uuid.UUID]settling[Item]{}, last: map[uuid.UUID]uint64{}}
	return f
}

// kindFeed is a feed of any kind.
type kindFeed interface {
	kind() string
	// tasks returns the tasks that read and settle objects that are due.
	tasks() []*task
	updateMetrics()
	mark(id uuid.UUID, after time.Duration)
	desync(ctx context.Context) (done bool, err error)
	exists(record *metadata.Record) bool
	incomplete() int
}

func (f *feed[Item]) updateMetrics() {
	m, name := f.plane.config.Metrics, f.plane.name
	m.objects.WithLabelValues(name.Namespace, name.Name, f.kind()).Set(float64(f.Store.Table.Count(name)))
	m.held.WithLabelValues(name.Namespace, name.Name, f.kind()).Set(float64(f.breaker.held()))
}

// moment is a point in the order of changes: the newest sequence number of the records, and the number of
// objects that were settled.
type moment struct{ head, settled uint64 }

func (f *feed[Item]) moment() moment {
	return moment{head: f.Store.Table.Sequence(), settled: f.settle.count.Load()}
}

// seen is an item that was read, with the object that was composed of it.
type seen[Item any] struct {
	item Item
	id   uuid.UUID
	// began is the moment before the item was read.
	began  moment
	record *metadata.Record
	// entry is the stored entry of the object, or nil. since is the revision of its last change.
	entry  *records.Entry
	since  uint64
	object records.Object
	// key is the object's key in the records. natural is the name that the current names in Coder
	// result in.
	key, natural string
}

// apply writes items into the records that were read after began. If hot is true, the items were
// requested by their ids or by a full read, and they are settled too.
func (f *feed[Item]) apply(ctx context.Context, connection connections.Connection, items []Item, began moment, hot bool) error {
	for some := range slices.Chunk(items, commitsAtOnce) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.applyChunk(ctx, connection, some, began, hot); err != nil {
			return err
		}
	}
	return nil
}

func (f *feed[Item]) applyChunk(ctx context.Context, connection connections.Connection, items []Item, began moment, hot bool) error {
	batch := &batch[Item]{feed: f}
	defer func() {
		for _, unlock := range batch.unlocks {
			unlock()
		}
	}()
	room, ignored := f.most()-f.Store.Table.Count(f.plane.name), 0
	for _, item := range items {
		s := &seen[Item]{item: item, id: f.source.id(item), began: began}
		f.breaker.clear(s.id)
		if !f.known(s.id) {
			if room--; room < 0 {
				ignored++
				f.forget(s.id)
				continue
			}
		}
		s.entry, s.since = f.Store.Table.Find(f.plane.name, uidOf(s.id))
		key := f.queue.keyOf(s.id)
		if s.entry != nil {
			key = s.entry.Key
		}
		// If another replica was killed while it wrote the object, its claim lasts a minute. A template that is
		// built meanwhile downloads its files each time, which Coder limits.
		if f.Store.Claimed(key) {
			f.mark(s.id, f.plane.config.Timing.Busy)
			continue
		}
		s.record, _ = f.plane.config.Records.Get(f.plane.name, uidOf(s.id))
		if err := f.compose(ctx, connection, s); err != nil {
			log.FromContext(ctx).Error(err, "Could not build an object", "kind", f.kind(), "id", s.id)
			f.rebuild(s.id)
			f.unreadable(ctx, s.id, err)
			continue
		}
		f.queue.built(s.id)
		if err := batch.lock(ctx, connection, s); err != nil {
			f.queue.blocked(s.id, s.key)
			f.again(ctx, s.id, s.key, err)
			continue
		}
		batch.add(s)
	}
	if ignored > 0 {
		log.FromContext(ctx).Info("Ignored objects of Coder that exceed the limit", "kind", f.kind(), "limit", f.most(), "objects", ignored)
	}
	if err := batch.commit(ctx); err != nil {
		return err
	}
	now := f.plane.config.Clock.Now()
	for _, s := range batch.done {
		f.queue.upToDate(s.id)
		f.queue.setBusy(s.id, f.source.busy != nil && f.source.busy(f.plane.name, s.item), now)
		// A failed operation is not retried before its time, no matter how often the item is read.
		if hot || asks(s.record) && !f.queue.failing(s.id) {
			f.settle.push(s, now)
		}
	}
	return nil
}

// asks reports whether a record has pending work: an intent or a deletion.
func asks(record *metadata.Record) bool {
	return record != nil && (len(record.Intent) > 0 || record.DeletionTimestamp != nil)
}

// mark schedules a read of an object after a delay.
func (f *feed[Item]) mark(id uuid.UUID, after time.Duration) {
	if !f.surplus(id) {
		f.queue.mark(id, f.plane.config.Clock.Now().Add(after))
	}
}

// rebuild schedules another attempt to read and build an object.
func (f *feed[Item]) rebuild(id uuid.UUID) {
	if !f.surplus(id) {
		f.queue.again(f.queue.unbuilt, id, f.plane.config.Clock.Now())
	}
}

// surplus reports whether an id, which Coder may have invented, is ignored and forgotten because too many reads are scheduled.
func (f *feed[Item]) surplus(id uuid.UUID) bool {
	if !f.queue.full() || f.known(id) {
		return false
	}
	f.forget(id)
	return true
}

// known reports whether an object is in the records, or is being created by a client.
func (f *feed[Item]) known(id uuid.UUID) bool {
	_, known := f.Store.Table.KeyOf(f.plane.name, uidOf(id))
	return known
}

// most returns the maximum number of objects of the kind.
func (f *feed[Item]) most() int {
	if f.source.list != nil {
		return maxListed
	}
	return f.plane.config.MaxWorkspaces
}

// compose makes the object of an item, and sets its name. A known object keeps its first name. A new one gets the
// name that its names in Coder result in. If an object that was renamed in Coder since has that name, the id is
// appended after two hyphens, which no name in Coder contains. It takes no lock.
func (f *feed[Item]) compose(ctx context.Context, connection connections.Connection, s *seen[Item]) error {
	var previous records.Object
	if s.entry != nil {
		previous = s.entry.Object
	}
	object, err := f.Kind.Object(ctx, connection, s.item, s.record, previous)
	if err != nil {
		return fmt.Errorf("building the %s of %s: %w", f.kind(), s.id, err)
	}
	if metadata.ControlPlaneOf(object) != f.plane.name || records.IDOf(object) != uidOf(s.id) {
		return fmt.Errorf("bug: the %s %q does not have the labels of control plane %s and the id %s",
			f.kind(), object.GetName(), f.plane.name, s.id)
	}
	if err := metadata.CheckName(object.GetName(), connection.NamePrefix, f.source.parts); err != nil {
		return fmt.Errorf("the %s %s is not served because of its name: %w", f.kind(), s.id, err)
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	s.object = object
	if twins := f.Store.Table.Twins(f.plane.name, uidOf(s.id)); twins != nil {
		return f.removeTwins(ctx, s, twins)
	}
	table := f.Store.Table
	s.natural = s.object.GetName()
	s.key = f.Store.Key(s.object.GetNamespace(), s.natural)
	if key, ok := table.KeyOf(f.plane.name, uidOf(s.id)); ok {
		s.key = key
	} else if occupant := table.Get(s.key); occupant != nil {
		if occupant.Natural == "" {
			// Names in Coder are unique: the other object is gone, or was renamed just now.
			f.mark(idOf(occupant.Object), 0)
			return fmt.Errorf("the %s %q: another object still has its name", f.kind(), s.natural)
		}
		plain, id := s.key, s.id.String()
		// The id of an earlier object of this name may begin with the same characters.
		if s.key = metadata.NameWithID(plain, id[:8]); table.Get(s.key) != nil {
			s.key = metadata.NameWithID(plain, id)
		}
	}
	_, name := f.Store.Locate(s.key)
	s.object.SetName(name)
	return nil
}

// removeTwins removes all records of an item except one: that of the item's name in Coder, or else the one
// with the most metadata of clients. Two objects for one item would appear as two, and the deletion of one would delete the other.
func (f *feed[Item]) removeTwins(ctx context.Context, s *seen[Item], twins []string) error {
	right := twins[0]
	if natural := f.Store.Key(s.object.GetNamespace(), s.object.GetName()); slices.Contains(twins, natural) {
		right = natural
	}
	err := fmt.Errorf("several records have its id: %s; keeping %s", strings.Join(twins, ", "), right)
	for _, key := range twins {
		if f.Store.Table.Since(key) > s.began.head || key == right {
			continue
		}
		unlock, ok := f.Store.TryLock(key)
		if !ok {
			continue
		}
		_, failed := f.propose(ctx, records.Proposal{Key: key, Expect: revisionOf(f.Store.Table.Get(key))})
		unlock()
		err = errors.Join(err, failed)
	}
	return err
}

// unchanged reports whether all inputs of an object are unchanged, and the records have nothing newer
// than the read.
func (f *feed[Item]) unchanged(s *seen[Item]) bool {
	entry, since := f.Store.Table.Find(f.plane.name, uidOf(s.id))
	record, _ := f.plane.config.Records.Get(f.plane.name, uidOf(s.id))
	if revisionOf(entry) != revisionOf(s.entry) || since > s.began.head || versionOf(record) != versionOf(s.record) {
		return false
	}
	f.settle.mu.Lock()
	settled := f.settle.last[s.id] > s.began.settled
	f.settle.mu.Unlock()
	// Settling changes Coder and the record, but not the records. The name may have been assigned to another object after
	// the read.
	return !settled && f.Store.Table.Since(s.key) <= s.began.head
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

// same reports whether a new object equals the stored entry.
func same(entry *records.Entry, next records.Object, natural string) bool {
	next.SetResourceVersion(entry.Object.GetResourceVersion())
	defer next.SetResourceVersion("")
	renamed := natural != next.GetName()
	return !entry.Damaged && (entry.Natural != "") == renamed && (!renamed || entry.Natural == natural) && equality.Semantic.DeepEqual(entry.Object, next)
}

// adopt binds the pending record of an interrupted creation to an item without a record, and
// composes the object again with it. It deletes the pending record if another item has the name.
// The caller holds the key's lock.
func (f *feed[Item]) adopt(ctx context.Context, connection connections.Connection, s *seen[Item]) error {
	if s.record != nil || s.entry != nil {
		return nil
	}
	records := f.plane.config.Records
	// Before the pending record was made, Coder had no object of that name. The item was read after
	// that.
	pending, ok := records.PendingFor(f.plane.name, f.kind(), s.object.GetName())
	if !ok {
		return nil
	}
	if kind, ok := f.Kind.(Adopter[Item]); ok && !kind.Adopts(s.item, pending) {
		if err := records.Delete(ctx, pending); err != nil {
			return fmt.Errorf("removing the metadata of %s %q, which was not created: %w", f.kind(), s.object.GetName(), err)
		}
		log.FromContext(ctx).Info("Removed the metadata of an interrupted creation, because another object has the name in Coder", "kind", f.kind(), "name", s.object.GetName())
		return nil
	}
	bound, err := records.Bind(ctx, pending, uidOf(s.id))
	if err != nil {
		return fmt.Errorf("adopting the metadata of %s %q: %w", f.kind(), s.object.GetName(), err)
	}
	log.FromContext(ctx).Info("Adopted the metadata of an object whose creation was interrupted", "kind", f.kind(), "name", s.object.GetName())
	if bound.Version != "" {
		s.record = bound
	}
	return f.compose(ctx, connection, s)
}

// keepGeneration writes an increased generation into the record before the object is served. It
// creates no record for an object without one, so that ten thousand workspaces that stop at night
// cause no writes for it: their generation is kept in the records. The caller holds the key's lock.
func (f *feed[Item]) keepGeneration(ctx context.Context, s *seen[Item]) error {
	generation := s.object.GetGeneration()
	if s.record == nil || generation <= max(1, s.record.Generation) {
		return nil
	}
	record := s.record.DeepCopy()
	record.Name, record.Generation = s.object.GetName(), generation
	kept, err := f.plane.config.Records.Put(ctx, record)
	if err != nil {
		return fmt.Errorf("keeping the generation of %s %q: %w", f.kind(), s.object.GetName(), err)
	}
	s.record = kept
	return nil
}

// propose commits changes to the records. It returns why some of them were not written, by their keys: a
// conflict, or an error for which records.IsRefused is true. A replica that was paused may know less than
// its successor, so it commits nothing until it holds the Lease again.
func (s *stock[Item]) propose(ctx context.Context, proposals ...records.Proposal) (unwritten map[string]error, err error) {
	if len(proposals) == 0 {
		return nil, nil
	}
	if !s.held() {
		return nil, errNotHeld
	}
	err = s.Store.Propose(ctx, proposals...)
	var some *records.UnwrittenError
	if errors.As(err, &some) {
		return some.Reasons, nil
	}
	return nil, err
}

// again schedules another attempt for an object that was not written. If kube-apiserver does not accept
// its record, the object counts as incomplete until then.
func (f *feed[Item]) again(ctx context.Context, id uuid.UUID, key string, reason error) {
	if !records.IsRefused(reason) && !apierrors.IsInvalid(reason) {
		f.mark(id, soon)
		return
	}
	// The object is read, and refused, again and again.
	if !f.surplus(id) && f.queue.again(f.queue.refused, id, f.plane.config.Clock.Now()) == 0 {
		log.FromContext(ctx).Error(reason, "An object keeps its last known state, because its record cannot be stored; trying again", "kind", f.kind(), "key", key)
	}
}

// incomplete returns the number of objects that could not be stored, or not completely.
func (f *feed[Item]) incomplete() int {
	f.queue.mu.Lock()
	refused := len(f.queue.refused)
	f.queue.mu.Unlock()
	return f.Store.Table.Truncated(f.plane.name) + refused
}

// unserved returns the number of objects that are not served because they could not be built or stored.
func (f *feed[Item]) unserved() (n int) {
	f.queue.mu.Lock()
	failed := maps.Clone(f.queue.refused)
	maps.Copy(failed, f.queue.unbuilt)
	f.queue.mu.Unlock()
	for id := range failed {
		if entry, _ := f.Store.Table.Find(f.plane.name, uidOf(id)); entry == nil {
			n++
		}
	}
	return n
}
