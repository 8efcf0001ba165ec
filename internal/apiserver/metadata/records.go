package metadata

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Records are the records of all served control planes. Every record that they
// give is shared: who wants to change one makes a DeepCopy first.
//
// An id is looked up within its control plane, because two Coders may stand on
// copies of one database, and then share their ids.
type Records interface {
	// Get gives the record of an object.
	Get(controlPlane types.NamespacedName, uid types.UID) (*Record, bool)
	// List gives all records of a control plane, pending ones included, in no order.
	List(controlPlane types.NamespacedName) []*Record
	// PendingFor gives the record of an object that is being created. One whose
	// object was found, so that another record has taken its place, is not given.
	PendingFor(controlPlane types.NamespacedName, kind, name string) (*Record, bool)

	// Put writes a record and gives it as it is then. Version is the one that was
	// read, empty to make a new record. Where the record is no longer as it was read
	// the error is a Conflict, unless it already is what was to be written; the
	// current one can then be read. An empty record is removed, and the result has no
	// Version. What is too large is Invalid. What is already so is not written again.
	Put(ctx context.Context, record *Record) (*Record, error)
	// Bind makes a pending record, as given, the one of the object that was created
	// for it. It can be repeated after any failure.
	Bind(ctx context.Context, pending *Record, uid types.UID) (*Record, error)
	// Delete removes a record: only the given Version, whichever where that is empty.
	// One that is not there is no error.
	Delete(ctx context.Context, record *Record) error

	// OnChange has a function called for each record that somebody else changed: by
	// hand, from a backup, and on replicas that do not write, the writer. It gets the
	// record as it is now; of one that was removed, only what it belonged to. It
	// is called one at a time and must not block, nor call Records' writing methods.
	OnChange(changed func(*Record))
}
