package records

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	metadatav1alpha1 "github.com/coder-k8s/coder-k8s/api/metadata/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// spec is what is in a record. In a Table its Object is empty.
type spec = metadatav1alpha1.RecordSpec

// Object is what is served.
type Object interface {
	runtime.Object
	metav1.Object
}

// Writer brings a write to the system of record.
type Writer interface {
	// Write makes wanted of current, and gives the object as it is then. current is
	// nil for a creation. wanted is nil where the object shall be removed. The result is
	// nil where it is gone. The lock of the key is held meanwhile. Before it changes
	// something in Coder it asks coderd.BeforeChange. Errors are API
	// statuses. Neither object may be written to.
	Write(ctx context.Context, key string, current, wanted Object) (Object, error)
}

// Config is what a Store works on.
type Config struct {
	Cluster Cluster
	// Kind is that of the objects, as what is kept names it.
	Kind string
	// Prefix is that of all keys, e.g. /aggregation.coder.com/coderworkspaces. Then comes
	// <namespace>/<name>, also that of the record.
	Prefix    string
	NewObject func() Object
	// Codec writes and reads objects. Nil is JSON as it is.
	Codec runtime.Codec
	// ControlPlane gives the control plane that an object names, State and Pending what
	// people read of it in its record. They may be nil.
	ControlPlane func(Object) string
	State        func(Object) string
	Pending      func(*metadata.Record) string
	// Files keeps the files of templates. Nil keeps them in the record.
	Files *Files
	// Replica names this one, and HeartbeatNamespace is where its heartbeat is.
	Replica            string
	HeartbeatNamespace string
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}

// Store is the library's storage over records.
type Store struct {
	config    Config
	versioner storage.APIObjectVersioner
	heartbeat *heartbeat
	// Table is what this replica has seen.
	Table  *Table
	writer Writer
	keys   atomic.Pointer[storage.KeysFunc]
	sizes  sizes
}

var _ storage.Interface = (*Store)(nil)

// NewStore gives a store.
func NewStore(config Config) *Store {
	if !strings.HasSuffix(config.Prefix, "/") {
		config.Prefix += "/"
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Store{
		config: config, Table: NewTable(config.Clock),
		heartbeat: newHeartbeat(config.Cluster, config.HeartbeatNamespace, config.Replica),
	}
}

// WriteWith has writes brought to the system of record. It is called before the store
// is used; without it the records are that system.
func (s *Store) WriteWith(writer Writer) { s.writer = writer }

// Kind is that of the objects.
func (s *Store) Kind() string { return s.config.Kind }

// Versioner reads and writes revisions in objects.
func (s *Store) Versioner() storage.Versioner { return s.versioner }

// ReadinessCheck succeeds: what is not known is told with each answer.
func (s *Store) ReadinessCheck() error { return nil }

// CompactRevision is not known: kube-apiserver keeps it to itself.
func (s *Store) CompactRevision() int64 { return 0 }

// GetCurrentResourceVersion is a revision that is not lower than that of any write
// that was acknowledged before.
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return s.heartbeat.now(ctx)
}

// RequestWatchProgress has the watch show something soon.
func (s *Store) RequestWatchProgress(ctx context.Context) error {
	s.heartbeat.progress(ctx)
	return nil
}

// Revision is the newest one up to which this replica has seen everything.
func (s *Store) Revision() uint64 { return s.Table.Revision() }

// FirstName gives the name of the object that has another one in Coder by now.
func (s *Store) FirstName(namespace, name string) string {
	if entry := s.Table.Renamed(s.Key(namespace, name)); entry != nil {
		return entry.Object.GetName()
	}
	return ""
}

// CatchUp waits until the Table shows everything that was written before now.
func (s *Store) CatchUp(ctx context.Context, every time.Duration) error {
	revision, err := s.heartbeat.now(ctx)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for s.Table.Revision() < revision {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// SweepHeartbeats removes the heartbeats of replicas that have written none for long.
// One replica calls it, now and then.
func (s *Store) SweepHeartbeats(ctx context.Context, now time.Time) error {
	return s.heartbeat.sweep(ctx, now)
}

// Close removes the heartbeat. Who has written one for the last time calls it.
func (s *Store) Close(ctx context.Context) error { return s.heartbeat.end(ctx) }

// These are the namespaces of the records of keys that are not namespace/name. Only
// the library's suite of tests has them.
const (
	clusterScope = "cluster-scope"
	noNamespace  = "0"
)

// Locate gives where the record of a key is.
func (s *Store) Locate(key string) (namespace, name string) {
	rest := strings.TrimPrefix(key, s.config.Prefix)
	namespace, name, ok := strings.Cut(rest, "/")
	switch {
	case !ok:
		return clusterScope, rest
	case namespace == "":
		return noNamespace, name
	}
	return namespace, name
}

// Key gives the key of a record.
func (s *Store) Key(namespace, name string) string {
	switch namespace {
	case clusterScope:
		return s.config.Prefix + name
	case noNamespace:
		return s.config.Prefix + "/" + name
	}
	return s.config.Prefix + namespace + "/" + name
}

func (s *Store) key(key string) (string, error) {
	return storage.PrepareKey(s.config.Prefix, key, false)
}

// encode gives the text of an object, which it changes.
func (s *Store) encode(object runtime.Object) (string, error) {
	if err := s.versioner.PrepareObjectForStorage(object); err != nil {
		return "", fmt.Errorf("preparing an object for its record: %w", err)
	}
	if s.config.Codec == nil {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		data, err := json.Marshal(object)
		return string(data), err
	}
	data, err := runtime.Encode(s.config.Codec, object)
	return string(bytes.TrimSpace(data)), err
}

// decode reads the object of a record into out.
func (s *Store) decode(ctx context.Context, record *Record, out runtime.Object) error {
	var err error
	if s.config.Codec == nil {
		err = json.Unmarshal([]byte(record.Object), out)
	} else {
		_, _, err = s.config.Codec.Decode([]byte(record.Object), nil, out)
	}
	if err != nil {
		return damagedError(record, err)
	}
	if object, ok := out.(Object); ok {
		if err := s.config.Files.attach(ctx, object, record, s.Table.get(s.Key(record.Namespace, record.Name))); err != nil {
			return unavailable(ctx, "reading the files of "+record.Namespace+"/"+record.Name, err)
		}
	}
	return s.versioner.UpdateObject(out, record.Revision)
}

// hold makes what a Table has of a record. What cannot be read is an error.
func (s *Store) hold(ctx context.Context, record *Record) (*held, error) {
	var object Object
	if record.Object != "" {
		object = s.config.NewObject()
		if err := s.decode(ctx, record, object); err != nil {
			return nil, err
		}
	}
	return s.holdWith(record, object)
}

// holdWith is hold where the object is known, which belongs to the Table then.
func (s *Store) holdWith(record *Record, object Object) (*held, error) {
	h := &held{
		key: s.Key(record.Namespace, record.Name), revision: record.Revision, spec: record.RecordSpec,
		controlPlane: types.NamespacedName{Namespace: record.Namespace, Name: record.ControlPlane},
	}
	h.spec.Object = ""
	if object != nil {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		h.hash = maphash.String(s.Table.seed, record.Object+record.Files)
		h.entry = &Entry{Key: h.key, Revision: record.Revision, Object: object, Natural: record.CoderName}
		s.sizes.note(len(record.Object))
	}
	if record.Kept == "" && record.Object != "" {
		return h, nil
	}
	kept, err := metadata.Read(record.Kept)
	if err != nil {
		return nil, damagedError(record, err)
	}
	kept.ControlPlane, kept.Kind, kept.Name = h.controlPlane, s.config.Kind, record.Name
	kept.UID, kept.Version = types.UID(record.ID), formatRevision(record.Revision)
	h.kept = kept
	return h, nil
}
