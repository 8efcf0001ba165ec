package replication

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
)

const (
	// maxFrame bounds what one frame may hold; an object is far smaller.
	maxFrame = 64 << 20
	// frameBytes and frameItems are what a frame of a snapshot or of history aims at.
	frameBytes = 1 << 20
	frameItems = 500
)

// frameKind is what a frame of the stream says.
type frameKind string

const (
	// frameHello is the first of each direction: who it is, or where its logs stand.
	frameHello frameKind = "hello"
	// frameState carries entries of a snapshot. The last one, with Done, makes them the log.
	frameState frameKind = "state"
	// frameChanges carries changes that follow on the revision Previous.
	frameChanges frameKind = "changes"
	// frameBoard carries the Board.
	frameBoard frameKind = "board"
	// frameBeat tells the writer's heads, and that it is there.
	frameBeat frameKind = "beat"
	// frameAck tells the writer what a log has.
	frameAck frameKind = "ack"
	// frameEnd says that all was sent that was asked for.
	frameEnd frameKind = "end"
)

// frame is one message of the stream between two replicas.
type frame struct {
	Kind     frameKind             `json:"kind"`
	Term     uint64                `json:"term,omitempty"`
	Name     string                `json:"name,omitempty"`
	Resource string                `json:"resource,omitempty"`
	Previous uint64                `json:"previous,omitempty"`
	Head     uint64                `json:"head,omitempty"`
	Done     bool                  `json:"done,omitempty"`
	Items    []item                `json:"items,omitempty"`
	Board    []partition.Partition `json:"board,omitempty"`
	Logs     standings             `json:"logs,omitempty"`
}

// item is an entry or a change.
type item struct {
	Key      string `json:"key"`
	Revision uint64 `json:"revision"`
	// Time is when a change was decided.
	Time time.Time `json:"time,omitzero"`
	// Object is missing where the key is removed.
	Object json.RawMessage `json:"object,omitempty"`
}

// standing is where a log stands.
type standing struct {
	Head uint64 `json:"head"`
	// Initialized is false while it has never held anything.
	Initialized bool `json:"initialized"`
}

// standings are those of all logs, by resource.
type standings map[string]standing

// commitRequest asks the writer for a write.
type commitRequest struct {
	Resource string          `json:"resource"`
	Key      string          `json:"key"`
	Expect   uint64          `json:"expect,omitempty"`
	Object   json.RawMessage `json:"object,omitempty"`
}

// commitResponse is what came of it.
type commitResponse struct {
	// Head is a revision up to which a log must be to show the outcome.
	Head uint64 `json:"head,omitempty"`
	// Entry is missing where the key is gone.
	Entry *item `json:"entry,omitempty"`
	// Changed says that the key no longer had the expected revision.
	Changed bool           `json:"changed,omitempty"`
	Status  *metav1.Status `json:"status,omitempty"`
}

// prepareRequest announces a new writer.
type prepareRequest struct {
	Term uint64 `json:"term"`
}

// prepareResponse tells it what a replica has.
type prepareResponse struct {
	// Promised is the highest term that the replica accepts. It is above the one
	// that was asked for where that is refused.
	Promised uint64    `json:"promised"`
	Logs     standings `json:"logs"`
}

// pullRequest asks a replica for what its log has beyond a head.
type pullRequest struct {
	Resource string   `json:"resource"`
	From     standing `json:"from"`
}

// encode gives the frame with its length in front.
func (f *frame) encode() ([]byte, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encoding a frame %q of %s: %w", f.Kind, f.Resource, err)
	}
	if len(body) > maxFrame {
		return nil, fmt.Errorf("a frame %q of %s has %d bytes, %d are allowed", f.Kind, f.Resource, len(body), maxFrame)
	}
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...), nil
}

// readFrame reads one.
func readFrame(r io.Reader) (*frame, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxFrame {
		return nil, fmt.Errorf("a frame says it has %d bytes, %d are allowed", size, maxFrame)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	var f frame
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("decoding a frame of %d bytes: %w", size, err)
	}
	return &f, nil
}

// encodeObject gives an object as JSON, nothing for none.
func encodeObject(object objectlog.Object) (json.RawMessage, error) {
	if object == nil {
		return nil, nil
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return data, nil
}

// decodeObject is its inverse.
func decodeObject(data json.RawMessage, newObject func() objectlog.Object) (objectlog.Object, error) {
	if len(data) == 0 {
		return nil, nil
	}
	object := newObject()
	// Integers in free-form fields stay integers.
	if err := utiljson.Unmarshal(data, object); err != nil {
		return nil, fmt.Errorf("decoding a %T of %d bytes: %w", object, len(data), err)
	}
	return object, nil
}

// encodeChange gives a change for the wire.
func encodeChange(change objectlog.Change) (item, error) {
	data, err := encodeObject(change.Object)
	return item{Key: change.Key, Revision: change.Revision, Time: change.Time, Object: data}, err
}

// encodeEntry gives an entry for the wire.
func encodeEntry(entry *objectlog.Entry) (item, error) {
	data, err := encodeObject(entry.Object)
	return item{Key: entry.Key, Revision: entry.Revision, Object: data}, err
}

// change is the inverse of encodeChange.
func (i item) change(newObject func() objectlog.Object) (objectlog.Change, error) {
	object, err := decodeObject(i.Object, newObject)
	return objectlog.Change{Key: i.Key, Revision: i.Revision, Time: i.Time, Object: object}, err
}

// entry is the inverse of encodeEntry.
func (i item) entry(newObject func() objectlog.Object) (*objectlog.Entry, error) {
	object, err := decodeObject(i.Object, newObject)
	if err == nil && object == nil {
		err = fmt.Errorf("the entry %q has no object", i.Key)
	}
	return &objectlog.Entry{Key: i.Key, Revision: i.Revision, Object: object}, err
}
