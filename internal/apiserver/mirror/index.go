package mirror

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
)

const (
	// eventsAtOnce bounds how long the log is held up.
	eventsAtOnce = 1024
	// removalsKept is how many removals are remembered. A read takes seconds.
	removalsKept = 1 << 15
)

// index finds the objects of a log by their control plane and id. It follows the
// log, so it also knows what clients wrote.
type index struct {
	log *objectlog.Log

	mu sync.Mutex
	// position is the revision up to which the log was read.
	position uint64
	planes   map[types.NamespacedName]map[types.UID]*objectlog.Entry
	// removed is the revision at which an id was last removed, removals are the same
	// in their order.
	removed  map[removal]uint64
	removals []removal
	// blind is the revision before which removals are not known.
	blind uint64
}

type removal struct {
	controlPlane types.NamespacedName
	uid          types.UID
}

// newIndex reads the whole log.
func newIndex(log *objectlog.Log) *index {
	x := &index{log: log}
	x.rebuild()
	return x
}

// controlPlaneOf is where an object lives.
func controlPlaneOf(object objectlog.Object) types.NamespacedName {
	return types.NamespacedName{
		Namespace: object.GetNamespace(),
		Name:      object.GetLabels()[aggregationv1alpha1.LabelControlPlaneName],
	}
}

func (x *index) rebuild() {
	x.planes = map[types.NamespacedName]map[types.UID]*objectlog.Entry{}
	x.removed, x.removals = map[removal]uint64{}, nil
	x.position = x.log.Scan("", func(entry *objectlog.Entry) bool {
		x.put(entry)
		return true
	})
	x.blind = x.position
}

// follow takes in what has changed in the log.
func (x *index) follow() {
	for {
		events, ok := x.log.Since(x.position, eventsAtOnce)
		if !ok {
			x.rebuild()
			return
		}
		if len(events) == 0 {
			return
		}
		for i := range events {
			x.apply(&events[i])
		}
	}
}

func (x *index) apply(event *objectlog.Event) {
	x.position = event.Revision
	if event.Previous != nil {
		x.remove(event.Previous, event.Revision)
	}
	if event.Object != nil {
		x.put(&objectlog.Entry{Key: event.Key, Revision: event.Revision, Object: event.Object})
	}
}

func (x *index) put(entry *objectlog.Entry) {
	controlPlane := controlPlaneOf(entry.Object)
	objects := x.planes[controlPlane]
	if objects == nil {
		objects = map[types.UID]*objectlog.Entry{}
		x.planes[controlPlane] = objects
	}
	objects[entry.Object.GetUID()] = entry
}

// remove takes an entry out, unless the object has another key by now.
func (x *index) remove(previous *objectlog.Entry, revision uint64) {
	gone := removal{controlPlane: controlPlaneOf(previous.Object), uid: previous.Object.GetUID()}
	objects := x.planes[gone.controlPlane]
	if known := objects[gone.uid]; known == nil || known.Key != previous.Key {
		return
	}
	delete(objects, gone.uid)
	if len(objects) == 0 {
		delete(x.planes, gone.controlPlane)
	}
	x.removed[gone] = revision
	x.removals = append(x.removals, gone)
	if len(x.removals) > removalsKept {
		oldest := x.removals[0]
		x.removals = x.removals[1:]
		x.blind = max(x.blind, x.removed[oldest])
		delete(x.removed, oldest)
	}
}

// find gives the entry of an object, or nil, and the revision at which that became
// so: of an object that was removed, that of its removal.
func (x *index) find(controlPlane types.NamespacedName, uid types.UID) (entry *objectlog.Entry, since uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.follow()
	if entry := x.planes[controlPlane][uid]; entry != nil {
		return entry, entry.Revision
	}
	return nil, max(x.blind, x.removed[removal{controlPlane, uid}])
}

// of gives the entries of a control plane, those that changed longest ago first.
func (x *index) of(controlPlane types.NamespacedName) []*objectlog.Entry {
	x.mu.Lock()
	x.follow()
	objects := x.planes[controlPlane]
	entries := make([]*objectlog.Entry, 0, len(objects))
	for _, entry := range objects {
		entries = append(entries, entry)
	}
	x.mu.Unlock()
	slices.SortFunc(entries, func(a, b *objectlog.Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	return entries
}

// count is the number of objects of a control plane.
func (x *index) count(controlPlane types.NamespacedName) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.follow()
	return len(x.planes[controlPlane])
}

// controlPlanes are those that have objects.
func (x *index) controlPlanes() []types.NamespacedName {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.follow()
	all := make([]types.NamespacedName, 0, len(x.planes))
	for controlPlane := range x.planes {
		all = append(all, controlPlane)
	}
	return all
}
