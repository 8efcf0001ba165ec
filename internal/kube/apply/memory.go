package apply

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type digest [sha256.Size]byte

type objectKey struct {
	kind schema.GroupVersionKind
	name types.NamespacedName
}

// record describes what was applied to an object, and the state of the object afterwards.
type record struct {
	uid     types.UID
	desired digest
	owned   digest
	// version is the resource version afterwards. It is not compared.
	version string
}

// memory contains the last record of each object. It is lost on a restart. Then every object is
// applied once more, which the API server answers without a write if nothing changed.
type memory struct{ sync.Map }

// of returns the record of an object, and reports whether it was applied and not forgotten since.
func (m *memory) of(key objectKey) (record, bool) {
	known, _ := m.Load(key)
	r, ok := known.(record)
	return r, ok
}

func (m *memory) matches(key objectKey, r record) bool {
	old, ok := m.of(key)
	r.version = old.version
	return ok && old == r
}

// behind reports whether an object is older than the last apply. Versions that cannot be compared
// do not count as older.
func (m *memory) behind(key objectKey, seen client.Object) bool {
	old, ok := m.of(key)
	if !ok || old.uid != seen.GetUID() {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(seen.GetResourceVersion(), old.version)
	return err == nil && order < 0
}

// digestOf returns a hash of the applied content. The keys of JSON objects are sorted, so the same
// content has the same hash.
func digestOf(desired *unstructured.Unstructured) (digest, error) {
	raw, err := json.Marshal(desired.Object)
	return sha256.Sum256(raw), err
}

// ownedFields returns a hash of the fields that the field owner owns and of the time of its last
// apply. The time shows that another writer with the same name applied other values. An apply that
// changes nothing keeps it. If a cache strips the managed fields, the hash is that of the resource
// version.
func ownedFields(live client.Object, fieldOwner string) digest {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == fieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply &&
			entry.Subresource == "" && entry.FieldsV1 != nil {
			return sha256.Sum256(append(sorted(entry.FieldsV1.GetRawBytes()), ptr.Deref(entry.Time, metav1.Time{}).UTC().String()...))
		}
	}
	return sha256.Sum256([]byte(live.GetResourceVersion()))
}

// sorted returns JSON with sorted object keys. The API server sorts list keys by their values, with
// port 80 before 443. An unstructured object sorts them by their text.
func sorted(raw []byte) []byte {
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return raw
	}
	if same, err := json.Marshal(fields); err == nil {
		return same
	}
	return raw
}
