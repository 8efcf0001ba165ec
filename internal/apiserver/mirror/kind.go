package mirror

import (
	"context"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Kind composes and settles the objects of one kind. It is safe for concurrent use.
type Kind[Item any] interface {
	// Object returns the object of an item, with the metadata of the record merged in. The record
	// and the previous object may be nil. Object must not modify them.
	Object(ctx context.Context, connection connections.Connection, item Item, record *metadata.Record, previous records.Object) (records.Object, error)
	// Settle applies to Coder the pending work of an object that is due now: recorded intent, a
	// deletion, or work that is pending in Coder. If again is true, the item is read again soon.
	Settle(ctx context.Context, connection connections.Connection, item Item, record *metadata.Record) (again bool, err error)
	// WithSync returns a copy of the object whose condition Synced reports whether Coder answers.
	// It returns nil if the condition would not change.
	WithSync(previous records.Object, reachable bool, since time.Time, message string) records.Object
}
