package metadata

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Record is what Kubernetes knows of an object and Coder has no place for.
type Record struct {
	// ControlPlane is where the object lives. The record is in its namespace.
	ControlPlane types.NamespacedName
	// Kind is CoderWorkspace or CoderTemplate.
	Kind string
	// Name is that of the object.
	Name string
	// UID is the object's, which is its id in Coder. It is empty while the object
	// is being created there.
	UID types.UID

	Labels                     map[string]string
	Annotations                map[string]string
	Finalizers                 []string
	OwnerReferences            []metav1.OwnerReference
	ManagedFields              []metav1.ManagedFieldsEntry
	Generation                 int64
	DeletionTimestamp          *metav1.Time
	DeletionGracePeriodSeconds *int64

	// Intent is what the kind still has to bring to Coder, or must remember for the
	// object. It belongs to the kind.
	Intent json.RawMessage

	// CreatedAt is when the record was made.
	CreatedAt metav1.Time
	// Version is that of the record itself, for Store.Put: who writes a record
	// gives back the Version that was read. Empty makes a new one.
	Version string
}
