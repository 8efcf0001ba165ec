package workload

import (
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errBehind reports that the pass read an older object than the one that was last written. The
// status of that object may be outdated although it matches the result of the pass.
var errBehind = errors.New("the cache does not have the status that was written last")

// versions remembers the resource version of each object at the end of the last pass over it. A
// stale cache may return an older version to the next pass. If the status of that version happens
// to match the result of the pass, nothing would be written, although the status in the cluster
// differs. No watch reports a change of the status, so no later pass would correct it.
type versions struct{ sync.Map }

type versionKey struct {
	kind string
	name types.NamespacedName
}

type recorded struct {
	uid      types.UID
	resource string
}

func (v *versions) note(p *Pass) {
	v.Store(versionKeyOf(p), recorded{uid: p.Object.GetUID(), resource: p.Object.GetResourceVersion()})
}

// behind reports whether the object of a pass is older than the recorded version. Versions that
// cannot be compared do not count as older.
func (v *versions) behind(p *Pass) bool {
	noted, _ := v.Load(versionKeyOf(p))
	known, ok := noted.(recorded)
	if !ok || known.uid != p.Object.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(p.Object.GetResourceVersion(), known.resource)
	return err == nil && order < 0
}

func versionKeyOf(p *Pass) versionKey {
	return versionKey{kind: p.Kind.Name, name: client.ObjectKeyFromObject(p.Object)}
}
