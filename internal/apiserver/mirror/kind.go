package mirror

import (
	"context"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// Kind knows what one kind of object is made of. It is safe for concurrent use.
type Kind[Item any] interface {
	// Object makes the object of an item, with the record laid over it. The record
	// and the previous object may be nil, and must not be written to.
	Object(ctx context.Context, connection connections.Connection, item Item, record *metadata.Record, previous records.Object) (records.Object, error)
	// Settle brings on what is recorded (intent, deletion) or waits in Coder and is
	// due now. With again the item is read again soon.
	Settle(ctx context.Context, connection connections.Connection, item Item, record *metadata.Record) (again bool, err error)
	// WithSync gives a copy whose condition Synced says whether Coder answers. It is
	// nil where nothing changes.
	WithSync(previous records.Object, reachable bool, since time.Time, message string) records.Object
}
