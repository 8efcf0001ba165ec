package records

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// change is one event of the watch of a world.
type change struct {
	key     string
	h       *held
	deleted bool
}

// world is an etcd with the records of a few keys, and a Table that learns of them in random order: with its own
// writes, with the watch, which is late, and with reads whose responses arrive late.
type world struct {
	t     *testing.T
	dice  *rand.Rand
	table *Table
	// records is what etcd has, and log all changes, of which the watch has delivered the first ones.
	records   map[string]*held
	log       []change
	delivered int
	// others allows other writers, and said has the newest revision of etcd when the Table last reported a change of an id.
	others bool
	said   map[types.UID]int
	// theirs are the revisions that other writers wrote.
	theirs map[uint64]bool
	// newest is the newest revision of each key that the Table has had.
	newest map[string]uint64
	// listing is true while the watch is interrupted.
	listing bool
	steps   []string
}

var worldPlane = types.NamespacedName{Namespace: "team", Name: "prod"}

func newWorld(t *testing.T, seed uint64, others bool) *world {
	t.Helper()
	w := &world{
		t: t, dice: rand.New(rand.NewPCG(seed, 0)), table: NewTable(clock.RealClock{}), records: map[string]*held{},
		others: others, said: map[types.UID]int{}, theirs: map[uint64]bool{}, newest: map[string]uint64{},
	}
	w.table.OnChange(func(_ types.NamespacedName, uid types.UID, _ bool) { w.said[uid] = len(w.log) })
	w.table.Observe(func(before, after runtime.Object, _ time.Time) {
		if before == after {
			w.fail("one object is reported as a change")
		}
	})
	return w
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\nafter %q", fmt.Sprintf(format, args...), w.steps)
}

func (w *world) key() string { return "/" + string(rune('a'+w.dice.IntN(4))) }

// next returns a new state of a record. Several records may have one id, and one may have none.
func (w *world) next(key string) *held {
	h := &held{key: key, controlPlane: worldPlane, revision: uint64(len(w.log) + 1)}
	h.spec.ControlPlane = worldPlane.Name
	if n := w.dice.IntN(5); n > 0 {
		h.spec.ID = fmt.Sprint("id-", n)
	}
	if w.dice.IntN(4) == 0 {
		h.spec.Claim = "other/1"
	}
	if w.dice.IntN(5) == 0 {
		return h
	}
	object := &aggregationv1alpha1.CoderUser{}
	object.Name, object.ResourceVersion = key[1:], fmt.Sprint(h.revision)
	h.hash = uint64(w.dice.IntN(3))
	h.entry = &Entry{Key: key, Revision: h.revision, Object: object}
	if w.dice.IntN(3) == 0 {
		h.entry.Natural = string(rune('p' + w.dice.IntN(2)))
	}
	return h
}

// copied returns a copy of what etcd has, as another response would contain it.
func copied(h *held) *held {
	if h == nil {
		return nil
	}
	again := *h
	if h.entry != nil {
		entry := *h.entry
		entry.Object = h.entry.Object.DeepCopyObject().(Object)
		again.entry = &entry
	}
	return &again
}

// store writes a state to etcd, and remove deletes a record.
func (w *world) store(h *held) {
	w.records[h.key] = h
	w.log = append(w.log, change{key: h.key, h: h})
}

func (w *world) remove(key string) {
	delete(w.records, key)
	w.log = append(w.log, change{key: key, deleted: true})
}

// deliver delivers some events of the watch.
func (w *world) deliver(most int) {
	for range w.dice.IntN(most + 1) {
		if w.delivered == len(w.log) || w.listing {
			return
		}
		event := w.log[w.delivered]
		w.delivered++
		if revision := uint64(w.delivered); event.deleted {
			w.table.lose(event.key, revision)
			w.table.show(revision)
		} else {
			w.table.see(copied(event.h))
			w.table.show(revision)
		}
		w.check()
	}
}

// another is a change by another writer.
func (w *world) another() {
	if key := w.key(); w.others && w.records[key] != nil && w.dice.IntN(3) == 0 {
		w.remove(key)
	} else if w.others {
		h := w.next(key)
		w.store(h)
		w.theirs[h.revision] = true
	}
}

// write is a write of this replica, whose response may be lost.
func (w *world) write() {
	key := w.key()
	base := w.table.get(key)
	_, err := w.table.write(key, func() (*held, error) {
		w.deliver(2)
		now := w.records[key]
		if (base == nil) != (now == nil) || base != nil && base.revision != now.revision {
			return nil, ErrChanged
		}
		h := w.next(key)
		h.spec.Claim = ""
		w.store(h)
		if w.others && w.dice.IntN(2) == 0 {
			w.another()
		}
		w.deliver(3)
		if w.others && w.dice.IntN(4) == 0 {
			return nil, ErrChanged
		}
		return copied(h), nil
	})
	if err == nil && !w.others && len(w.said) > 0 {
		w.fail("an own write is reported as a change of another: %v", w.said)
	}
}

// forget is a deletion by this replica.
func (w *world) forget() {
	key := w.key()
	base, now := w.table.get(key), w.records[key]
	if base == nil || now == nil || base.revision != now.revision {
		return
	}
	w.remove(key)
	if w.others {
		w.deliver(3)
	}
	w.table.bury(key, base.revision)
}

// read is a quorum read whose response arrives after some events.
func (w *world) read() {
	key := w.key()
	known, now := w.table.get(key), copied(w.records[key])
	w.deliver(3)
	switch {
	case now != nil:
		w.table.see(now)
	case known != nil:
		w.table.lose(key, known.revision)
	}
}

// list reads all records, because the watch was interrupted, and continues the watch from there.
func (w *world) list() {
	at, found, keys := len(w.log), []*held{}, map[string]bool{}
	for _, h := range w.records {
		found, keys[h.key] = append(found, copied(h)), true
	}
	w.listing = true
	slices.SortFunc(found, func(a, b *held) int { return int(a.revision) - int(b.revision) })
	for _, h := range found {
		w.table.see(h)
		w.check()
		switch w.dice.IntN(4) {
		case 0:
			w.another()
		case 1:
			w.write()
		}
	}
	w.table.fill(keys, uint64(at))
	w.delivered, w.listing = at, false
}

// check verifies what holds at any time.
func (w *world) check() {
	w.t.Helper()
	for key, h := range w.table.byKey {
		written := w.log[h.revision-1]
		if written.key != key || written.deleted || written.h.spec != h.spec || (written.h.entry == nil) != (h.entry == nil) {
			w.fail("%s is %+v at revision %d, and was %+v", key, h, h.revision, written.h)
		}
		if h.revision < w.newest[key] {
			w.fail("%s goes back from revision %d to %d", key, w.newest[key], h.revision)
		}
		w.newest[key] = h.revision
		if h.entry != nil && h.entry.Object.GetName() != key[1:] {
			w.fail("%s has the object %s", key, h.entry.Object.GetName())
		}
	}
	w.checkIndexes()
}

// checkIndexes compares the indexes with the records.
func (w *world) checkIndexes() {
	w.t.Helper()
	t, ids := w.table, map[types.UID][]string{}
	for key, h := range t.byKey {
		if h.spec.ID != "" {
			ids[types.UID(h.spec.ID)] = append(ids[types.UID(h.spec.ID)], key)
		}
	}
	for uid, keys := range ids {
		slices.Sort(keys)
		if h := t.planes[worldPlane][uid]; h == nil || t.byKey[h.key] != h {
			w.fail("the index has %+v for %s of %v", h, uid, keys)
		}
		if twins := t.twins[id{worldPlane, uid}]; len(keys) > 1 && !slices.Equal(twins, keys) || len(keys) == 1 && twins != nil {
			w.fail("the twins of %s are %v and not %v", uid, twins, keys)
		}
	}
	if len(t.planes[worldPlane]) != len(ids) {
		w.fail("the index has %v, and the records %v", t.planes[worldPlane], ids)
	}
	for natural, h := range t.renamed {
		if t.byKey[h.key] != h || naturalKey(h) != natural {
			w.fail("%s is the name of %+v, which is not known", natural, h)
		}
	}
}

// settle delivers everything. The Table then has what etcd has.
func (w *world) settle() {
	w.t.Helper()
	for w.delivered < len(w.log) {
		w.deliver(5)
	}
	for key, h := range w.records {
		if known := w.table.get(key); known == nil || known.revision != h.revision {
			w.fail("%s is %+v, and etcd has %+v", key, known, h)
		}
		if w.theirs[h.revision] && h.spec.Claim == "" && h.spec.ID != "" && w.said[types.UID(h.spec.ID)] < int(h.revision) {
			w.fail("the change of %s by another writer is not reported", key)
		}
	}
	for key, h := range w.table.byKey {
		if w.records[key] == nil {
			w.fail("etcd has no %s, and the Table has %+v", key, h)
		}
	}
	if len(w.table.graves) > 0 || len(w.table.writing) > 0 {
		w.fail("%v and %v are never forgotten", w.table.graves, w.table.writing)
	}
}

// TestRandomHistories checks the invariants of the Table in random histories, with other writers and without.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(400) {
		w := newWorld(t, seed, seed%2 == 0)
		for range 60 {
			steps := []string{"deliver", "another", "write", "forget", "read", "list", "settle"}
			step := steps[w.dice.IntN(len(steps))]
			w.steps = append(w.steps, step)
			before := w.table.Sequence()
			map[string]func(){
				"deliver": func() { w.deliver(4) }, "another": w.another, "write": w.write, "forget": w.forget,
				"read": w.read, "list": w.list, "settle": w.settle,
			}[step]()
			w.check()
			if w.table.Sequence() < before {
				w.fail("the sequence goes back")
			}
		}
		w.settle()
	}
}
