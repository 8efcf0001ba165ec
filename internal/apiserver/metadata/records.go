package metadata

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

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
	// backup, or by another replica. The argument identifies the object of the record. The function
	// is called sequentially, and must not block or call writing methods of Records.
	OnChange(changed func(*Record))
}
