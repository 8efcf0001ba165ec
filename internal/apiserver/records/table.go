package records

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// removalsKept is how many removals are remembered. A read of Coder takes seconds.
const removalsKept = 1 << 15

// Entry is an object as this replica knows it. Neither it nor its object ever changes.
type Entry struct {
	Key string
	// Revision is the one at which this replica learned that the object is so. It
	// stays when only what is kept beside the object changes.
	Revision uint64
	Object   Object
	// Natural is the name that the object would get now, where it was renamed in Coder.
	Natural string
	// Damaged says that the text of the record cannot be read. The object is as it was known
	// before, and is to be written again although nothing of it has changed.
	Damaged bool
}

// held is all that is known of a record. It never changes.
type held struct {
	key          string
	controlPlane types.NamespacedName
	// revision is that of the record.
	revision uint64
	// spec is what is in the record, without the object.
	spec spec
	// entry is nil while the object is being created. hash is that of its text.
	entry *Entry
	hash  uint64
	// damaged says that the text of the record cannot be read. entry and kept are what was
	// known before, and the next write repairs the record.
	damaged bool
	// kept is nil where nothing is kept.
	kept *metadata.Record
	// sequence is when this became so, claimed since when the claim is there, born since
	// when the record is, all as this replica learned it.
	sequence uint64
	claimed  time.Time
	born     time.Time
}

type id struct {
	controlPlane types.NamespacedName
	uid          types.UID
}

// Table is what this replica has seen of all records of a kind: what the cache's own
// list and watch showed, and what this replica wrote. It is safe for concurrent use.
type Table struct {
	locks locks
	seed  maphash.Seed
	clock clock.PassiveClock

	mutex sync.RWMutex
	// sequence counts the changes.
	sequence uint64
	byKey    map[string]*held
	planes   map[types.NamespacedName]map[types.UID]*held
	// renamed are the objects whose name in Coder is another one now, by the key that they
	// would have.
	renamed map[string]*held
	// graves are the revisions of records that this replica removed. The watch may still
	// tell of their lives.
	graves map[string]uint64
	// removed is when an object was removed last, removals are the same in their
	// order. blind is the time before which removals are not known.
	removed  map[id]uint64
	removals []id
	blind    uint64
	filled   bool
	// shown is the newest revision that the watch has shown, with all before it.
	shown uint64

	// writing are the keys that this replica is writing, and what the watch has told of
	// them meanwhile.
	writing map[string]*held
	changed func(controlPlane types.NamespacedName, uid types.UID)
	observe func(before, after runtime.Object, born time.Time)
	// turned is closed at the next change. It is nil while nobody waits.
	turned chan struct{}
}

// NewTable gives one that knows nothing.
func NewTable(c clock.PassiveClock) *Table {
	return &Table{
		locks: locks{held: map[string]*keyLock{}}, seed: maphash.MakeSeed(), clock: c,
		byKey: map[string]*held{}, planes: map[types.NamespacedName]map[types.UID]*held{},
		graves: map[string]uint64{}, renamed: map[string]*held{}, removed: map[id]uint64{}, writing: map[string]*held{},
	}
}

// OnChange has a function called for each object whose record somebody else changed. It
// must not block, and is set before the table is used.
func (t *Table) OnChange(changed func(controlPlane types.NamespacedName, uid types.UID)) {
	t.changed = changed
}

// Observe has a function called with two states of an object that follow one another,
// whoever wrote them, and when this replica first saw the object. It must not block nor use
// the table, and is set before that is used.
func (t *Table) Observe(observe func(before, after runtime.Object, born time.Time)) {
	t.observe = observe
}

// Lock waits for the lock of a key: of the writes of this replica, one at a time has it.
func (t *Table) Lock(ctx context.Context, key string) (unlock func(), err error) {
	return t.locks.lock(ctx, key)
}

// Filled says that every record was seen once.
func (t *Table) Filled() bool {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.filled
}

// Sequence is a point in the order in which this replica learns of changes.
func (t *Table) Sequence() uint64 {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.sequence
}

// Get gives the object of a key, or nil.
func (t *Table) Get(key string) *Entry {
	if h := t.get(key); h != nil {
		return h.entry
	}
	return nil
}

func (t *Table) get(key string) *held {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.byKey[key]
}

// Renamed gives the object that would have a key if it was made now, or nil.
func (t *Table) Renamed(key string) *Entry {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	if h := t.renamed[key]; h != nil {
		return h.entry
	}
	return nil
}

// Since is when the record of a key became as it is, 0 where there is none.
func (t *Table) Since(key string) uint64 {
	if h := t.get(key); h != nil {
		return h.sequence
	}
	return 0
}

// In gives up to limit objects of a namespace.
func (t *Table) In(namespace string, limit int) []*Entry {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	var entries []*Entry
	for controlPlane, objects := range t.planes {
		if controlPlane.Namespace != namespace {
			continue
		}
		for _, h := range objects {
			if h.entry != nil && len(entries) < limit {
				entries = append(entries, h.entry)
			}
		}
	}
	return entries
}

// Find gives the object with an id, or nil, and the Sequence at which that became so.
func (t *Table) Find(controlPlane types.NamespacedName, uid types.UID) (entry *Entry, since uint64) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	if h := t.planes[controlPlane][uid]; h != nil {
		return h.entry, h.sequence
	}
	return nil, max(t.blind, t.removed[id{controlPlane, uid}])
}

// KeyOf gives the key of the record with an id, also while its object is being made.
func (t *Table) KeyOf(controlPlane types.NamespacedName, uid types.UID) (string, bool) {
	if h := t.find(controlPlane, uid); h != nil {
		return h.key, true
	}
	return "", false
}

func (t *Table) find(controlPlane types.NamespacedName, uid types.UID) *held {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.planes[controlPlane][uid]
}

// Of gives the objects of a control plane, those that changed longest ago first.
func (t *Table) Of(controlPlane types.NamespacedName) []*Entry {
	t.mutex.RLock()
	entries := make([]*Entry, 0, len(t.planes[controlPlane]))
	for _, h := range t.planes[controlPlane] {
		if h.entry != nil {
			entries = append(entries, h.entry)
		}
	}
	t.mutex.RUnlock()
	slices.SortFunc(entries, func(a, b *Entry) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Key, b.Key))
	})
	return entries
}

// Count is the number of objects of a control plane.
func (t *Table) Count(controlPlane types.NamespacedName) (n int) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	for _, h := range t.planes[controlPlane] {
		if h.entry != nil {
			n++
		}
	}
	return n
}

// ControlPlanes are those that have objects.
func (t *Table) ControlPlanes() []types.NamespacedName {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	all := make([]types.NamespacedName, 0, len(t.planes))
	for controlPlane := range t.planes {
		all = append(all, controlPlane)
	}
	return all
}

// all gives what is known of a control plane's records.
func (t *Table) all(controlPlane types.NamespacedName) []*held {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	var out []*held
	for _, h := range t.byKey {
		if h.controlPlane == controlPlane {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b *held) int { return cmp.Compare(a.key, b.key) })
	return out
}

// files are the parts that the records name.
func (t *Table) files() map[types.NamespacedName]bool {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	used := map[types.NamespacedName]bool{}
	for _, h := range t.byKey {
		for _, name := range strings.Fields(h.spec.Files) {
			used[types.NamespacedName{Namespace: h.controlPlane.Namespace, Name: name}] = true
		}
	}
	return used
}

// foreign says that somebody else is writing a record now, and gives a channel that
// is closed when that may have changed.
func (t *Table) foreign(key string, mine func(claim string) bool) (busy bool, turned <-chan struct{}) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	h := t.byKey[key]
	if h == nil || h.spec.Claim == "" || mine(h.spec.Claim) || t.clock.Since(h.claimed) >= claimPatience {
		return false, nil
	}
	if t.turned == nil {
		t.turned = make(chan struct{})
	}
	return true, t.turned
}
