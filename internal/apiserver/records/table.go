package records

import (
	"cmp"
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// removalsKept is the number of deletions that are remembered. A read of Coder takes seconds.
const removalsKept = 1 << 15

// Entry is an object as this replica knows it. Neither the Entry nor its object is ever modified.
type Entry struct {
	Key string
	// Revision is the revision at which this replica learned this state of the object. It does not
	// change if only the kept metadata changes.
	Revision uint64
	Object   Object
	// Natural is the name that the object would get if it were created now. It is empty unless the
	// object was renamed in Coder.
	Natural string
	// Damaged is true if the text of the record cannot be decoded. The object is as it was known
	// before, and must be written again even if it has not changed.
	Damaged bool
}

// held is the known state of a record. It is never modified.
type held struct {
	key          string
	controlPlane types.NamespacedName
	// revision is the revision of the record.
	revision uint64
	// spec is the content of the record, without the object and the versions.
	spec spec
	// entry is nil while the object is being created. hash is the hash of its text.
	entry *Entry
	hash  uint64
	// damaged is true if the text of the record cannot be decoded. entry and kept are from the
	// previous state, and the next write repairs the record.
	damaged bool
	// lost is that of the Record.
	lost bool
	// truncated is true if fields were left out of the object.
	truncated bool
	// sent is true if this is what this replica has sent, and not what kube-apiserver has returned.
	sent bool
	// kept is nil if no metadata is kept.
	kept *metadata.Record
	// sequence is the Sequence of the last change. claimed is the time of the current claim, and
	// born that of the record. All are from when this replica learned of them.
	sequence uint64
	claimed  time.Time
	born     time.Time
}

type id struct {
	controlPlane types.NamespacedName
	uid          types.UID
}

// Table holds the records of a kind that this replica has seen: from the list and watch of the
// cache, from other reads, and from its own writes. It is safe for concurrent use.
//
// It learns of the states of a record in any order. Each record is in one of these states:
//
//	unknown   there is no held. All its states up to shown and up to its grave are outdated.
//	begun     a held without an entry: a replica is creating the object
//	served    a held with an entry
//	damaged   a held whose record cannot be decoded. Its entry, if it has one, is the previous one
//
// and moves between them in these ways:
//
//	take           a state with a greater revision replaces the known one, from any source. A state with the same
//	               revision only replaces what this replica has sent, if kube-apiserver has stored something else
//	lose, bury     the record becomes unknown, if it has the revision of the deletion or a lower one
//	fill           the same, for all records that a complete list does not have
//	replace        an equal object replaces the entry's, and is no change
//
// While this replica writes a record, the states that the watch delivers are taken, and reported as changes of
// others only if they are newer than the written one. So the known revision of a record never decreases, and
// after the watch has delivered everything, the Table is equal to etcd.
type Table struct {
	locks locks
	seed  maphash.Seed
	clock clock.PassiveClock

	mutex sync.RWMutex
	// sequence counts the changes.
	sequence uint64
	byKey    map[string]*held
	planes   map[types.NamespacedName]map[types.UID]*held
	// twins holds the keys of the records that have one id, if there are several.
	twins map[id][]string
	// renamed holds the objects that were renamed in Coder, by the keys that they would get now.
	renamed map[string]*held
	// graves are the newest revisions of deleted records, until the watch has delivered them.
	graves map[string]uint64
	// removed holds the sequence of the last deletion of an object, and removals the same in order.
	// blind is the sequence before which deletions are forgotten.
	removed  map[id]uint64
	removals []id
	blind    uint64
	filled   bool
	// shown is the newest revision up to which the watch has delivered all changes.
	shown uint64

	// writing holds the keys that this replica is writing, with the newest state that the watch has
	// delivered meanwhile.
	writing map[string]*held
	changed func(controlPlane types.NamespacedName, uid types.UID, gone bool)
	observe func(before, after runtime.Object, born time.Time)
	// turned is closed at the next change. It is nil if no goroutine waits.
	turned chan struct{}
}

// NewTable returns an empty Table.
func NewTable(c clock.PassiveClock) *Table {
	return &Table{
		locks: locks{held: map[string]*keyLock{}}, seed: maphash.MakeSeed(), clock: c,
		byKey: map[string]*held{}, planes: map[types.NamespacedName]map[types.UID]*held{},
		graves: map[string]uint64{}, renamed: map[string]*held{}, twins: map[id][]string{}, removed: map[id]uint64{}, writing: map[string]*held{},
	}
}

// OnChange sets a function that is called for each object whose record another replica or user
// changed or deleted. It must not block or use the table, and must be set before the table is used.
func (t *Table) OnChange(changed func(controlPlane types.NamespacedName, uid types.UID, gone bool)) {
	t.changed = changed
}

// Observe sets a function that is called with two successive states of an object, regardless of the
// writer, and with the time when this replica first saw the object. It must not block or use the
// table, and must be set before the table is used.
func (t *Table) Observe(observe func(before, after runtime.Object, born time.Time)) {
	t.observe = observe
}

// Lock waits for the lock of a key. The lock serializes the writes of this replica.
func (t *Table) Lock(ctx context.Context, key string) (unlock func(), err error) {
	return t.locks.lock(ctx, key)
}

// Filled reports whether every record was read once.
func (t *Table) Filled() bool {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.filled
}

// Sequence returns the number of changes that this replica has learned so far.
func (t *Table) Sequence() uint64 {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.sequence
}

// Get returns the object of a key, or nil.
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

// Renamed returns the object that would get this key if it were created now, or nil.
func (t *Table) Renamed(key string) *Entry {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	if h := t.renamed[key]; h != nil {
		return h.entry
	}
	return nil
}

// Since returns the Sequence of the last change of a key, or 0 if there is no record.
func (t *Table) Since(key string) uint64 {
	if h := t.get(key); h != nil {
		return h.sequence
	}
	return 0
}

// Find returns the object with an ID, or nil, and the Sequence of its last change.
func (t *Table) Find(controlPlane types.NamespacedName, uid types.UID) (entry *Entry, since uint64) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	if h := t.planes[controlPlane][uid]; h != nil {
		return h.entry, h.sequence
	}
	return nil, max(t.blind, t.removed[id{controlPlane, uid}])
}

// KeyOf returns the key of the record with an ID, also while its object is being created.
func (t *Table) KeyOf(controlPlane types.NamespacedName, uid types.UID) (string, bool) {
	if h := t.find(controlPlane, uid); h != nil {
		return h.key, true
	}
	return "", false
}

// Twins returns the keys of the records that have an ID, if there are several, the one with the most kept
// metadata first. Only one of them is right: the mirror removes the others.
func (t *Table) Twins(controlPlane types.NamespacedName, uid types.UID) []string {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	keys := slices.Clone(t.twins[id{controlPlane, uid}])
	slices.SortStableFunc(keys, func(a, b string) int {
		return cmp.Compare(len(t.byKey[b].spec.Kept), len(t.byKey[a].spec.Kept))
	})
	return keys
}

func (t *Table) find(controlPlane types.NamespacedName, uid types.UID) *held {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.planes[controlPlane][uid]
}

// Of returns the objects of a control plane, the least recently changed first.
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

// Count returns the number of objects of a control plane.
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

// Truncated returns the number of objects of a control plane of which fields were left out.
func (t *Table) Truncated(controlPlane types.NamespacedName) (n int) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	for _, h := range t.planes[controlPlane] {
		if h.truncated {
			n++
		}
	}
	return n
}

// ControlPlanes returns the control planes that have records.
func (t *Table) ControlPlanes() []types.NamespacedName {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	all := map[types.NamespacedName]bool{}
	for _, h := range t.byKey {
		all[h.controlPlane] = true
	}
	return slices.Collect(maps.Keys(all))
}

// Removals returns proposals that remove all records of a control plane, also those whose object is
// not created yet.
func (t *Table) Removals(controlPlane types.NamespacedName) []Proposal {
	var out []Proposal
	for _, h := range t.all(controlPlane) {
		p := Proposal{Key: h.key}
		if h.entry != nil {
			p.Expect = h.entry.Revision
		}
		out = append(out, p)
	}
	return out
}

// all returns the known states of all records of a control plane.
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

// withFiles returns the known states of the records that refer to parts.
func (t *Table) withFiles() []*held {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	var out []*held
	for _, h := range t.byKey {
		if h.spec.Files != "" {
			out = append(out, h)
		}
	}
	return out
}

// parts returns the parts that the record refers to.
func (h *held) parts() []types.NamespacedName {
	var all []types.NamespacedName
	for _, name := range strings.Fields(h.spec.Files) {
		all = append(all, types.NamespacedName{Namespace: h.controlPlane.Namespace, Name: name})
	}
	return all
}

// foreign reports whether another replica is writing a record now. It returns a channel that is
// closed when that may have changed.
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
