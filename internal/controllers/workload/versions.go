package workload

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errBehind says that the pass read an object that is older than what was written
// last, so that nothing follows from its status being as it should be.
var errBehind = errors.New("the cache does not have the status that was written last")

// versions remembers the version of each object of a kind as it was when the last
// pass over it ended. A cache may give an older one to the next pass. The status in
// it may say by chance what that pass finds, and then nothing would be written,
// while the cluster has the one in between; and no watch tells of a status, so
// nobody would look again.
type versions struct {
	mu    sync.Mutex
	known map[versionKey]version
}

type versionKey struct {
	kind string
	name types.NamespacedName
}

type version struct {
	uid      types.UID
	resource string
}

// note remembers the version that the object of a pass has now.
func (v *versions) note(p *Pass) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[versionKey]version{}
	}
	v.known[versionKeyOf(p)] = version{uid: p.Object.GetUID(), resource: p.Object.GetResourceVersion()}
}

// behind says that the object of a pass is older than what is remembered. What
// cannot be compared is not older.
func (v *versions) behind(p *Pass) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.known[versionKeyOf(p)]
	if !ok || known.uid != p.Object.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(p.Object.GetResourceVersion(), known.resource)
	return err == nil && order < 0
}

func (v *versions) forget(kind string, name types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.known, versionKey{kind: kind, name: name})
}

func versionKeyOf(p *Pass) versionKey {
	return versionKey{kind: p.Kind.Name, name: client.ObjectKeyFromObject(p.Object)}
}
