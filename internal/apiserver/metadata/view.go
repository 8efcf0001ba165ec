package metadata

import (
	"context"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// held is a resource as it was last seen. It never changes.
type held struct {
	key     types.NamespacedName
	uid     types.UID
	version uint64
	// record is nil where the resource cannot be read.
	record *Record
	// pendingUID is that of the resource in whose place this one came.
	pendingUID types.UID
	// ownerUID is that of the control plane that owns the resource.
	ownerUID types.UID
	// others is what somebody else put on the resource itself.
	others *metav1.ObjectMeta
}

// owner is what is told of a record that is no longer there.
func (h *held) owner() *Record {
	return &Record{ControlPlane: h.record.ControlPlane, Kind: h.record.Kind, Name: h.record.Name, UID: h.record.UID}
}

type byID struct {
	controlPlane types.NamespacedName
	uid          types.UID
}

type byName struct {
	controlPlane types.NamespacedName
	kind, name   string
}

// grave is a resource that this replica removed. The watch may still tell of its
// life, and of those that had its key before.
type grave struct {
	uid     types.UID
	version uint64
}

// view is all that is known of the resources: what the watch tells, and what this
// replica wrote and the watch does not tell yet. Of two states of a resource the
// one with the greater version is newer.
type view struct {
	mu       sync.RWMutex
	byKey    map[types.NamespacedName]*held
	byID     map[byID]*held
	pending  map[byName]*held
	planes   map[types.NamespacedName]map[types.NamespacedName]*held
	replaced map[types.UID]int
	graves   map[types.NamespacedName]grave
	// complete is for each namespace, or for all of them, the version of the newest list.
	// What was there by then is known.
	complete map[string]uint64
	// writing are the keys that this replica is writing. What the watch tells of
	// them waits, so that it is known whose change it is.
	writing map[types.NamespacedName]*writing

	// telling orders the calls of listeners.
	telling   sync.Mutex
	listeners []func(*Record)
}

type writing struct {
	done  chan struct{}
	later []func() *held
}

func newView() *view {
	return &view{
		byKey: map[types.NamespacedName]*held{}, byID: map[byID]*held{}, pending: map[byName]*held{},
		planes:   map[types.NamespacedName]map[types.NamespacedName]*held{},
		replaced: map[types.UID]int{}, graves: map[types.NamespacedName]grave{}, complete: map[string]uint64{},
		writing: map[types.NamespacedName]*writing{},
	}
}

// hold keeps others from writing a key, and has what is told of it wait.
func (v *view) hold(ctx context.Context, key types.NamespacedName) (release func(), err error) {
	for {
		v.mu.Lock()
		other := v.writing[key]
		if other == nil {
			v.writing[key] = &writing{done: make(chan struct{})}
			v.mu.Unlock()
			return func() { v.release(key) }, nil
		}
		v.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (v *view) release(key types.NamespacedName) {
	v.mu.Lock()
	ended := v.writing[key]
	delete(v.writing, key)
	var changed []*held
	for _, tell := range ended.later {
		if h := tell(); h != nil {
			changed = append(changed, h)
		}
	}
	v.mu.Unlock()
	close(ended.done)
	v.notify(changed)
}

// told takes up what the watch tells of a key, now or when the write of it ends.
// The function runs under the lock and gives what listeners shall hear of.
func (v *view) told(key types.NamespacedName, tell func() *held) {
	v.mu.Lock()
	if w := v.writing[key]; w != nil {
		w.later = append(w.later, tell)
		v.mu.Unlock()
		return
	}
	changed := tell()
	v.mu.Unlock()
	if changed != nil {
		v.notify([]*held{changed})
	}
}

// hear takes up a state that the watch tells, or a list of that version. A watch that
// is behind the newest list also tells the life of what was gone by then.
func (v *view) hear(h *held, list uint64) *held {
	complete := max(v.complete[metav1.NamespaceAll], v.complete[h.key.Namespace])
	if v.byKey[h.key] == nil && h.version <= complete && list < complete {
		return nil
	}
	return v.see(h)
}

// listed takes up that everything in a namespace was told as of a version.
func (v *view) listed(namespace string, version uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.complete[namespace] = max(v.complete[namespace], version)
}

// see takes up a state. It gives it back where it is news.
func (v *view) see(h *held) *held {
	if buried, ok := v.graves[h.key]; ok {
		if buried.uid == h.uid || h.version <= buried.version {
			return nil
		}
		delete(v.graves, h.key)
	}
	previous := v.byKey[h.key]
	if previous != nil && previous.version >= h.version {
		return nil
	}
	v.drop(previous)
	v.put(h)
	if h.record == nil {
		return previous
	}
	return h
}

// lose takes up that a resource was not there at a version. It gives the state
// that was lost.
func (v *view) lose(key types.NamespacedName, version uint64) *held {
	if buried, ok := v.graves[key]; ok && buried.version <= version {
		delete(v.graves, key)
	}
	previous := v.byKey[key]
	if previous == nil || previous.version > version {
		return nil
	}
	v.drop(previous)
	return previous
}

// bury takes up that this replica removed a resource.
func (v *view) bury(h *held) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drop(v.byKey[h.key])
	v.graves[h.key] = grave{uid: h.uid, version: h.version}
}

// write takes up what this replica wrote.
func (v *view) write(h *held) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.see(h)
}

func (v *view) put(h *held) {
	v.byKey[h.key] = h
	if h.pendingUID != "" {
		v.replaced[h.pendingUID]++
	}
	if h.record == nil {
		return
	}
	plane := v.planes[h.record.ControlPlane]
	if plane == nil {
		plane = map[types.NamespacedName]*held{}
		v.planes[h.record.ControlPlane] = plane
	}
	plane[h.key] = h
	if h.record.Pending() {
		v.pending[nameOf(h.record)] = h
	} else {
		v.byID[byID{h.record.ControlPlane, h.record.UID}] = h
	}
}

func (v *view) drop(h *held) {
	if h == nil {
		return
	}
	delete(v.byKey, h.key)
	if h.pendingUID != "" {
		if v.replaced[h.pendingUID]--; v.replaced[h.pendingUID] == 0 {
			delete(v.replaced, h.pendingUID)
		}
	}
	if h.record == nil {
		return
	}
	plane := v.planes[h.record.ControlPlane]
	if delete(plane, h.key); len(plane) == 0 {
		delete(v.planes, h.record.ControlPlane)
	}
	if h.record.Pending() {
		delete(v.pending, nameOf(h.record))
	} else {
		delete(v.byID, byID{h.record.ControlPlane, h.record.UID})
	}
}

func nameOf(record *Record) byName { return byName{record.ControlPlane, record.Kind, record.Name} }

// current is what is known of a key.
func (v *view) current(key types.NamespacedName) *held {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.byKey[key]
}

// stale are the keys of a namespace, or of all, that are known at or below a
// version and not among those seen.
func (v *view) stale(namespace string, seen map[types.NamespacedName]bool, version uint64) []types.NamespacedName {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var keys []types.NamespacedName
	in := func(key types.NamespacedName) bool {
		return (namespace == "" || key.Namespace == namespace) && !seen[key]
	}
	for key, h := range v.byKey {
		if in(key) && h.version <= version {
			keys = append(keys, key)
		}
	}
	for key, buried := range v.graves {
		if in(key) && buried.version <= version {
			keys = append(keys, key)
		}
	}
	return keys
}

// notify tells the listeners. They hear of each record as it is by then, so that
// none goes backwards.
func (v *view) notify(changed []*held) {
	if len(changed) == 0 {
		return
	}
	v.telling.Lock()
	defer v.telling.Unlock()
	for _, h := range changed {
		if h.record == nil {
			continue
		}
		record := h.owner()
		if now := v.current(h.key); now != nil && now.record != nil {
			record = now.record
		}
		for _, listener := range v.listeners {
			listener(record)
		}
	}
}

func (v *view) listen(listener func(*Record)) {
	v.telling.Lock()
	defer v.telling.Unlock()
	v.listeners = append(v.listeners, listener)
}

func parseVersion(version string) (uint64, error) { return strconv.ParseUint(version, 10, 64) }
