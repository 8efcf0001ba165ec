package records

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// spec is the content of a record. In a Table, its Object is empty.
type spec = recordsv1alpha1.RecordSpec

// Object is a served object.
type Object interface {
	runtime.Object
	metav1.Object
}

// Writer applies a write to the system of record.
type Writer interface {
	// Write changes current to wanted, and returns the resulting object. current is nil for a
	// creation, wanted is nil for a deletion. The result is nil if the object is gone. The caller
	// holds the lock of the key. Before each change in Coder, Write calls coderd.BeforeChange.
	// Errors are API statuses. Write must not modify either object. If the object has changed in Coder
	// since current was stored, Write keeps and changes nothing and returns a NewerError.
	Write(ctx context.Context, key string, current, wanted Object) (Object, error)
}

// Config configures a Store.
type Config struct {
	Cluster Cluster
	// Kind is the kind of the objects. The kept metadata refers to it.
	Kind string
	// Prefix is the prefix of all keys, for example /aggregation.coder.com/coderworkspaces. It is
	// followed by <namespace>/<name>, which is also the name of the record.
	Prefix    string
	NewObject func() Object
	// Codec encodes and decodes objects. If nil, they are plain JSON.
	Codec runtime.Codec
	// State returns text for a print column of the record of an object. It may be nil.
	State func(Object) string
	// Files stores the files of templates. If nil, they stay in the record.
	Files *Files
	// Replica is the name of this replica, and HeartbeatNamespace the namespace of its heartbeat.
	Replica            string
	HeartbeatNamespace string
	// Clock is the real clock if nil.
	Clock clock.PassiveClock
}

// Store implements storage.Interface on records.
type Store struct {
	config    Config
	versioner storage.APIObjectVersioner
	heartbeat *heartbeat
	// Table holds the records that this replica has seen.
	Table  *Table
	writer Writer
	keys   atomic.Pointer[storage.KeysFunc]
	// size is the moving average of the size of an object.
	size atomic.Int64
}

var _ storage.Interface = (*Store)(nil)

// NewStore returns a Store.
func NewStore(config Config) *Store {
	if !strings.HasSuffix(config.Prefix, "/") {
		config.Prefix += "/"
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Store{
		config: config, Table: NewTable(config.Clock),
		heartbeat: newHeartbeat(config.Cluster, config.Clock, config.HeartbeatNamespace, config.Replica),
	}
}

// WriteWith sets the Writer that applies writes to the system of record. It is called before the
// store is used.
func (s *Store) WriteWith(writer Writer) { s.writer = writer }

// Kind returns the kind of the objects.
func (s *Store) Kind() string { return s.config.Kind }

// Versioner returns the versioner of the objects.
func (s *Store) Versioner() storage.Versioner { return s.versioner }

// ReadinessCheck always returns nil: unavailability is reported in the response to each request.
func (s *Store) ReadinessCheck() error { return nil }

// CompactRevision returns 0, because kube-apiserver does not expose it.
func (s *Store) CompactRevision() int64 { return 0 }

// GetCurrentResourceVersion returns a revision that is not lower than that of any write that was
// acknowledged before.
func (s *Store) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return s.heartbeat.now(ctx)
}

// RequestWatchProgress writes a heartbeat so that the watch delivers an event, unless the last heartbeat has not been
// delivered yet.
func (s *Store) RequestWatchProgress(ctx context.Context) error {
	if s.heartbeat.seen.Load() >= s.heartbeat.written.Load() {
		s.heartbeat.verify(ctx)
	}
	return nil
}

// Revision returns the newest revision up to which this replica has seen all changes.
func (s *Store) Revision() uint64 { return s.Table.Revision() }

// FirstName returns the name of the object whose counterpart in Coder was renamed to this name, or
// "".
func (s *Store) FirstName(namespace, name string) string {
	if entry := s.Table.Renamed(s.Key(namespace, name)); entry != nil {
		return entry.Object.GetName()
	}
	return ""
}

// CatchUp waits until the Table has all writes that were acknowledged before the call.
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

// SweepHeartbeats deletes the heartbeats of replicas that have not written one for silentFor. One
// replica calls it periodically.
func (s *Store) SweepHeartbeats(ctx context.Context, now time.Time) error {
	return s.heartbeat.sweep(ctx, now)
}

// verifyEvery is the interval at which a replica without requests writes a heartbeat. The heartbeat that is
// newer than a backup shows that the cluster went back to it, so a backup that is restored within this interval
// after it was made may not be noticed. kube-apiserver may not end its watches then.
const verifyEvery = time.Minute

// WaitRestored returns an error after the cluster went back to an earlier state, for example because etcd was
// restored from a backup. The Table is newer than the cluster then, so the process must end.
func (s *Store) WaitRestored(ctx context.Context) error {
	s.heartbeat.verify(ctx)
	ticker := time.NewTicker(verifyEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-s.heartbeat.restored:
			return err
		case <-ticker.C:
			s.heartbeat.verify(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// compare returns an error if a quorum read returned an older revision of a record than the one that was
// known before the read.
func (s *Store) compare(ctx context.Context, known *held, revision uint64) error {
	if known == nil || known.revision <= revision {
		return nil
	}
	return unavailable(ctx, "reading "+known.key, s.heartbeat.wentBack("the record of "+known.key, known.revision, revision))
}

// Close deletes the heartbeat when the replica shuts down. It is called after the last heartbeat was written.
func (s *Store) Close(ctx context.Context) error {
	h := s.heartbeat
	revision := h.written.Load()
	if revision == 0 {
		return nil
	}
	err := h.cluster.Delete(ctx, h.record.Namespace, h.record.Name, revision)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// These are the namespaces of records whose keys are not namespace/name. Only the library's test
// suite uses them.
const (
	clusterScope = "cluster-scope"
	noNamespace  = "0"
)

// Locate returns the namespace and the name of the record of a key.
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

// Key returns the key of a record.
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

// encode sets the text of an object in its record, and the versions of a template, which are no part of the text. It
// modifies the object.
func (s *Store) encode(record *Record, object Object) error {
	record.Versions = ""
	if tmpl, ok := object.(*aggregationv1alpha1.CoderTemplate); ok && tmpl.Status.Versions != nil {
		data, err := json.Marshal(tmpl.Status.Versions)
		if err != nil {
			return err
		}
		record.Versions = string(data)
	}
	if err := s.versioner.PrepareObjectForStorage(object); err != nil {
		return fmt.Errorf("preparing an object for its record: %w", err)
	}
	var data []byte
	var err error
	if s.config.Codec == nil {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		data, err = json.Marshal(object)
	} else {
		data, err = runtime.Encode(s.config.Codec, object)
	}
	record.Object = string(bytes.TrimSpace(data))
	return err
}

// decode decodes the object of a record into out.
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
		known := s.Table.get(s.Key(record.Namespace, record.Name))
		if err := attachVersions(object, record, known); err != nil {
			return damagedError(record, err)
		}
		if err := s.config.Files.attach(ctx, object, record, known); err != nil {
			return unavailable(ctx, "reading the files of "+record.Namespace+"/"+record.Name, err)
		}
	}
	return s.versioner.UpdateObject(out, record.Revision)
}

// hold converts a record to the form that a Table holds. It returns an error if the record cannot
// be decoded.
func (s *Store) hold(ctx context.Context, record *Record) (*held, error) {
	var object Object
	if record.Object != "" {
		object = s.config.NewObject()
		if err := s.decode(ctx, record, object); err != nil {
			return nil, err
		}
	}
	h := &held{
		key: s.Key(record.Namespace, record.Name), revision: record.Revision, spec: record.RecordSpec, lost: record.lost,
		controlPlane: types.NamespacedName{Namespace: record.Namespace, Name: record.ControlPlane},
	}
	h.spec.Object, h.spec.Versions = "", ""
	if object != nil {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		h.hash = s.hashOf(record)
		h.entry = &Entry{Key: h.key, Revision: record.Revision, Object: object, Natural: record.CoderName}
		h.truncated = truncatedCondition(object) != nil
		// A replica of an earlier version takes the UID for the id, and writes it into the record.
		h.spec.ID = cmp.Or(string(IDOf(object)), record.ID)
		size := int64(len(record.Object))
		if before := s.size.Load(); before != 0 {
			size = before + (size-before)/16
		}
		// Of two concurrent changes one may be lost. An average tolerates that.
		s.size.Store(size)
	}
	if record.Kept == "" && record.Object != "" {
		return h, nil
	}
	kept, err := metadata.Read(record.Kept)
	if err != nil {
		return nil, damagedError(record, err)
	}
	kept.ControlPlane, kept.Kind, kept.Name = h.controlPlane, s.config.Kind, record.Name
	kept.UID, kept.Version = types.UID(h.spec.ID), formatRevision(record.Revision)
	h.kept = kept
	return h, nil
}

// EnableResourceSizeEstimation makes Stats report the number of objects.
func (s *Store) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	s.keys.Store(&keys)
	return nil
}

// Stats returns the number of objects and their average size.
func (s *Store) Stats(ctx context.Context) (storage.Stats, error) {
	keys := s.keys.Load()
	if keys == nil {
		return storage.Stats{}, nil
	}
	found, err := (*keys)(ctx)
	return storage.Stats{ObjectCount: int64(len(found)), EstimatedAverageObjectSizeBytes: s.size.Load()}, err
}
