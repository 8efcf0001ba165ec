package records

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// see updates the Table with a record from the watch or from a read.
func (t *Table) see(h *held) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now, news := t.take(h)
	if !news {
		return
	}
	if _, ours := t.writing[h.key]; ours {
		t.writing[h.key] = h
		return
	}
	t.notify(now)
}

// take stores a state if it is newer than the known one. It returns the state that is known then,
// and reports whether it is new.
func (t *Table) take(h *held) (now *held, news bool) {
	known := t.byKey[h.key]
	if known != nil && known.equals(h) {
		// Use the copy of the object that the cache has, so that only one is in memory.
		return t.replace(known, h.entry.Object), false
	}
	switch {
	case known != nil && known.revision >= h.revision && !pruned(known, h):
		return known, false
	case known == nil && max(t.shown, t.graves[h.key]) >= h.revision:
		// The response to a read came after the record was deleted.
		return nil, false
	}
	t.sequence++
	h.sequence, h.claimed = t.sequence, t.clock.Now()
	h.born = h.claimed
	if known != nil {
		h.inherit(known)
		t.drop(known, false)
	}
	if h.kept != nil && h.kept.CreatedAt.IsZero() {
		h.kept.CreatedAt = metav1.NewTime(h.born)
	}
	t.put(h)
	if t.observe != nil && known != nil && known.entry != nil && h.entry != nil && known.entry != h.entry {
		t.observe(known.entry.Object, h.entry.Object, h.born)
	}
	t.turn()
	return h, true
}

// equals reports whether next is the same revision with the same object.
func (h *held) equals(next *held) bool {
	return h.revision == next.revision && h.entry != nil && next.entry != nil && h.hash == next.hash && !pruned(h, next)
}

// pruned reports whether kube-apiserver has stored something else at the same revision than this replica has sent: a definition of
// another version drops the fields that it does not know.
func pruned(known, h *held) bool {
	return known.revision == h.revision && known.sent && !h.sent && known.spec != h.spec
}

// adopt makes the Table use the copy of an object that the cache stores, so that only one is in
// memory: after a list, the cache has its own. It returns the key as the Table has it.
func (t *Table) adopt(key string, object Object) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	known := t.byKey[key]
	if known == nil {
		return key
	}
	if known.entry != nil && known.entry.Object != object && known.entry.Object.GetResourceVersion() == object.GetResourceVersion() {
		t.replace(known, object)
	}
	return known.key
}

// replace replaces the object of a state by an equal one.
func (t *Table) replace(known *held, object Object) *held {
	same := *known
	entry := *known.entry
	entry.Object = object
	same.entry = &entry
	t.put(&same)
	return &same
}

// inherit copies from the previous state the values that the change has not affected.
func (h *held) inherit(known *held) {
	h.born = known.born
	if known.spec.Claim == h.spec.Claim {
		h.claimed = known.claimed
	}
	if known.entry != nil && h.entry != nil && known.damaged == h.damaged && known.hash == h.hash && known.entry.Natural == h.entry.Natural {
		h.entry, h.sequence = known.entry, known.sequence
	}
	if known.kept != nil && h.kept != nil && known.spec.Kept == h.spec.Kept && known.spec.ID == h.spec.ID {
		h.kept = known.kept
	}
}

func (t *Table) put(h *held) {
	t.byKey[h.key] = h
	if h.entry != nil && h.entry.Natural != "" {
		t.renamed[naturalKey(h)] = h
	}
	if h.spec.ID == "" {
		return
	}
	plane := t.planes[h.controlPlane]
	if plane == nil {
		plane = map[types.UID]*held{}
		t.planes[h.controlPlane] = plane
	}
	uid := types.UID(h.spec.ID)
	if other := plane[uid]; other != nil && other.key != h.key {
		of := id{h.controlPlane, uid}
		keys := append([]string{other.key, h.key}, t.twins[of]...)
		slices.Sort(keys)
		t.twins[of] = slices.Compact(keys)
	}
	plane[uid] = h
}

// separate removes a key from the records that have one id. It returns one of the others, or nil.
func (t *Table) separate(of id, key string) *held {
	keys := t.twins[of]
	if !slices.Contains(keys, key) {
		return nil
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(other string) bool { return other == key })
	if t.twins[of] = keys; len(keys) == 1 {
		delete(t.twins, of)
	}
	return t.byKey[keys[0]]
}

// naturalKey returns the key that the object would get if it were created now.
func naturalKey(h *held) string {
	return h.key[:strings.LastIndexByte(h.key, '/')+1] + h.entry.Natural
}

func (t *Table) drop(known *held, gone bool) {
	delete(t.byKey, known.key)
	if known.entry != nil && known.entry.Natural != "" && t.renamed[naturalKey(known)] == known {
		delete(t.renamed, naturalKey(known))
	}
	t.turn()
	if known.spec.ID == "" {
		return
	}
	was := id{known.controlPlane, types.UID(known.spec.ID)}
	plane := t.planes[was.controlPlane]
	if other := t.separate(was, known.key); other != nil {
		plane[was.uid] = other
		return
	}
	if plane[was.uid] != known {
		return
	}
	if delete(plane, was.uid); len(plane) == 0 {
		delete(t.planes, was.controlPlane)
	}
	if !gone {
		return
	}
	t.sequence++
	t.removed[was] = t.sequence
	t.removals = append(t.removals, was)
	if len(t.removals) > removalsKept {
		oldest := t.removals[0]
		t.removals = t.removals[1:]
		t.blind = max(t.blind, t.removed[oldest])
		delete(t.removed, oldest)
	}
}

// lose records that another replica or user deleted a record, which had this revision or an earlier one.
func (t *Table) lose(key string, revision uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if known := t.end(key, revision); known != nil {
		t.notify(known)
	}
}

// bury records that this replica deleted a record, which had this revision.
func (t *Table) bury(key string, revision uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.end(key, revision)
}

// end removes a record, unless a newer one is known. It returns the removed state, or nil.
func (t *Table) end(key string, revision uint64) *held {
	if t.shown < revision {
		t.graves[key] = max(t.graves[key], revision)
	}
	known := t.byKey[key]
	if known == nil || known.revision > revision {
		return nil
	}
	t.drop(known, true)
	return known
}

// fill records that a list was read completely: records that are older than the list and not among
// its keys are gone.
func (t *Table) fill(keys map[string]bool, revision uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for key, known := range t.byKey {
		if !keys[key] && known.revision <= revision {
			t.drop(known, true)
			t.notify(known)
		}
	}
	t.filled = true
	t.showLocked(revision)
}

// show records the newest revision that the watch has delivered.
func (t *Table) show(revision uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.showLocked(revision)
}

func (t *Table) showLocked(revision uint64) {
	t.shown = max(t.shown, revision)
	for key, buried := range t.graves {
		if buried <= t.shown {
			delete(t.graves, key)
		}
	}
}

// Revision returns the newest revision up to which the Table is complete.
func (t *Table) Revision() uint64 {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.shown
}

// write calls a function that writes the record of a key. Until it returns, events of the watch for
// this key are held back, so that they can be attributed to this replica or to another one. The
// caller holds the lock of the key.
func (t *Table) write(key string, write func() (*held, error)) (*held, error) {
	t.mutex.Lock()
	t.writing[key] = nil
	t.mutex.Unlock()
	written, err := write()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	current := t.writing[key]
	delete(t.writing, key)
	if err != nil {
		t.notify(current)
		return nil, err
	}
	now, _ := t.take(written)
	if current != nil && current.revision > written.revision {
		t.notify(current)
	}
	if now == nil || now.revision != written.revision {
		return written, nil
	}
	return now, nil
}

// notify reports that another replica or user changed a record. A record with a claim is not
// reported, because its writer changes it again.
func (t *Table) notify(h *held) {
	if h != nil && t.changed != nil && h.spec.ID != "" && h.spec.Claim == "" {
		t.changed(h.controlPlane, types.UID(h.spec.ID), t.byKey[h.key] == nil)
	}
}

func (t *Table) turn() {
	if t.turned != nil {
		close(t.turned)
		t.turned = nil
	}
}
