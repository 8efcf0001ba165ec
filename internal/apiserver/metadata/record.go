package metadata

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Record is the metadata of an object that Kubernetes has and Coder cannot store. The fields with a
// name in JSON are the text in the stored record.
type Record struct {
	// ControlPlane is the control plane of the object. The record is in its namespace.
	ControlPlane types.NamespacedName `json:"-"`
	// Kind is CoderWorkspace, CoderTemplate or CoderUser.
	Kind string `json:"-"`
	// Name is the name of the object.
	Name string `json:"-"`
	// UID is the id of the object in Coder. It is empty while the object is being created in Coder.
	UID types.UID `json:"-"`

	Labels                     map[string]string           `json:"labels,omitempty"`
	Annotations                map[string]string           `json:"annotations,omitempty"`
	Finalizers                 []string                    `json:"finalizers,omitempty"`
	OwnerReferences            []metav1.OwnerReference     `json:"ownerReferences,omitempty"`
	ManagedFields              []metav1.ManagedFieldsEntry `json:"managedFields,omitempty"`
	Generation                 int64                       `json:"generation,omitempty"`
	DeletionTimestamp          *metav1.Time                `json:"deletionTimestamp,omitempty"`
	DeletionGracePeriodSeconds *int64                      `json:"deletionGracePeriodSeconds,omitempty"`
	// Intent is state of the kind: changes that are not applied to Coder yet, and values to
	// remember. It is a JSON object or empty.
	Intent json.RawMessage `json:"intent,omitempty"`

	// CreatedAt is when the record was created.
	CreatedAt metav1.Time `json:"-"`
	// Version is the version of the record itself. A caller of Records.Put passes the Version that
	// it read. With an empty Version, Put creates a record.
	Version string `json:"-"`
}

// Pending reports whether the object is still being created.
func (r *Record) Pending() bool { return r.UID == "" }

// DeletionDue reports whether the object is to be deleted in Coder now: its deletion is recorded,
// and no finalizer of a client is left. A nil Record has no deletion.
func (r *Record) DeletionDue() bool {
	return r != nil && r.DeletionTimestamp != nil && len(r.Finalizers) == 0
}

// IsEmpty reports whether there is nothing to store. A nil Record is empty.
func (r *Record) IsEmpty() bool {
	return r == nil || len(r.Labels) == 0 && len(r.Annotations) == 0 && len(r.Finalizers) == 0 &&
		len(r.OwnerReferences) == 0 && onlyDefault(r.ManagedFields) && r.Generation <= 1 &&
		r.DeletionTimestamp == nil && r.DeletionGracePeriodSeconds == nil && noIntent(r.Intent)
}

func noIntent(intent json.RawMessage) bool {
	switch string(bytes.TrimSpace(intent)) {
	case "", "null", "{}":
		return true
	}
	return false
}

// DeepCopy returns a copy that the caller may change.
func (r *Record) DeepCopy() *Record {
	if r == nil {
		return nil
	}
	out := *r
	out.Labels, out.Annotations = maps.Clone(r.Labels), maps.Clone(r.Annotations)
	out.Finalizers = slices.Clone(r.Finalizers)
	out.OwnerReferences, out.ManagedFields = deepCopies(r.OwnerReferences), deepCopies(r.ManagedFields)
	out.DeletionTimestamp = r.DeletionTimestamp.DeepCopy()
	if r.DeletionGracePeriodSeconds != nil {
		out.DeletionGracePeriodSeconds = ptr.To(*r.DeletionGracePeriodSeconds)
	}
	out.Intent = slices.Clone(r.Intent)
	return &out
}

// deepCopies returns a copy, or nil for an empty slice.
func deepCopies[T any, P interface {
	*T
	DeepCopyInto(into *T)
}](all []T) []T {
	if len(all) == 0 {
		return nil
	}
	out := make([]T, len(all))
	for i := range all {
		P(&all[i]).DeepCopyInto(&out[i])
	}
	return out
}

// Records provides the records of all served control planes. The returned records are shared: a
// caller that changes one must make a DeepCopy first.
//
// An ID is unique only within its control plane, because two Coders may run on copies of one
// database.
type Records interface {
	// Get returns the record of an object.
	Get(controlPlane types.NamespacedName, uid types.UID) (*Record, bool)
	// List returns all records of a control plane, including pending ones, in no order.
	List(controlPlane types.NamespacedName) []*Record
	// PendingFor returns the record of an object that is being created. It does not return a record
	// that was replaced by the record of the created object.
	PendingFor(controlPlane types.NamespacedName, kind, name string) (*Record, bool)

	// Put writes a record and returns the result. Version is the version that was read, or empty to
	// create a record. If the record was changed since, the error is a Conflict, unless it already
	// has the wanted content. The caller can then read the current record. An empty record is
	// deleted, and the result has no Version. A record that is too large is Invalid. A record that
	// already has the wanted content is not written.
	Put(ctx context.Context, record *Record) (*Record, error)
	// Bind turns a pending record, as given, into the record of the object that was created for it.
	// It can be repeated after any failure.
	Bind(ctx context.Context, pending *Record, uid types.UID) (*Record, error)
	// Delete deletes a record if it has the given Version, or any version if it is empty. It is no
	// error if the record does not exist.
	Delete(ctx context.Context, record *Record) error

	// OnChange sets a function that is called for each record that was changed by hand, from a
	// backup, or by another replica. The record only identifies its object, and gone reports whether
	// it was deleted. The function is called sequentially, and must not block or call methods of
	// Records.
	OnChange(changed func(record *Record, gone bool))
}
