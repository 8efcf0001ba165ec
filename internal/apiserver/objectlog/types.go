package objectlog

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ErrChanged says that a key no longer has the revision that was expected.
var ErrChanged = errors.New("the object changed meanwhile")

// ErrBusy says that a write of the same key is under way.
var ErrBusy = errors.New("the object is being written")

// Object is what a log holds.
type Object interface {
	runtime.Object
	metav1.Object
}

// Entry is one object at one revision. Neither it nor its object ever changes:
// who wants to write to the object copies it first.
type Entry struct {
	Key string
	// Revision is also the object's resourceVersion.
	Revision uint64
	Object   Object
}

// Change makes a key have an object, or none, from a revision on.
type Change struct {
	Key      string
	Revision uint64
	// Object is nil where the key is removed.
	Object Object
	// Time is when it was decided.
	Time time.Time
}

// Event is a change together with what it replaced.
type Event struct {
	Change
	// Previous is nil where the key was not there.
	Previous *Entry
}

// Revisions gives the numbers of changes.
type Revisions interface {
	// Next gives a number greater than head.
	Next(head uint64) uint64
}

// Proposal asks for a change of one key. Who proposes holds the key's lock.
type Proposal struct {
	Key string
	// Expect is the revision that the key has, 0 where it is not there.
	Expect uint64
	// Object is nil to remove the key. It belongs to the log from here on.
	Object Object
}

// Commit is a write that a client asked for.
type Commit struct {
	Key string
	// Expect is the revision of the object that the client's change is based on, 0
	// for a creation.
	Expect uint64
	// Object is wanted. It is nil where the object shall be gone at once.
	Object Object
}

// Committer decides a write: on the writer itself, on other replicas by asking
// the writer.
type Committer interface {
	// Commit gives the entry that the log has afterwards, nil where the key is gone.
	// The error is ErrChanged where the key no longer has the expected revision; the
	// caller reads again and starts over. Otherwise it is an API status. When it
	// returns, the log of this replica holds the change.
	Commit(ctx context.Context, commit Commit) (*Entry, error)
}

// Writer brings a write to the system of record.
type Writer interface {
	// Write makes wanted of current, and gives the object as it is then. current is
	// nil for a creation. wanted is nil where the object shall be removed. The
	// result is nil where it is gone; it belongs to the log from then on. The lock of
	// the key is held meanwhile. Errors are API statuses. Neither object may be
	// written to.
	Write(ctx context.Context, key string, current, wanted Object) (Object, error)
}
