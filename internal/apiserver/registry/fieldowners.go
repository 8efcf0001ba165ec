package registry

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// ChangesFieldOwners reports whether an update changes which managers own fields of the spec. Server-side apply can
// take over a field without a change of its value.
func ChangesFieldOwners(was, wanted metav1.Object) bool {
	return !maps.EqualFunc(specOwners(was), specOwners(wanted), (*fieldpath.Set).Equals)
}

// specOwners returns the fields of the spec that each manager owns. A field set that cannot be parsed owns nothing.
func specOwners(obj metav1.Object) map[string]*fieldpath.Set {
	spec := fieldpath.PathElement{FieldName: ptr.To("spec")}
	owned := map[string]*fieldpath.Set{}
	for _, entry := range obj.GetManagedFields() {
		var all fieldpath.Set
		if entry.FieldsV1 == nil || all.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
			continue
		}
		if fields := all.WithPrefix(spec); !fields.Empty() {
			owned[string(entry.Operation)+"/"+entry.Manager+"/"+entry.Subresource] = fields
		}
	}
	return owned
}
