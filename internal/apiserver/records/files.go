package records

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

const (
	// partSize is the size of one part of compressed files, in bytes. etcd accepts 1.5 MiB per
	// request.
	partSize = 512 << 10
	// partsAtOnce is the number of parts in one answer of kube-apiserver: at most 14 MB of text.
	partsAtOnce = 20
	// maxFiles limits the files of one template, in bytes of JSON. An object shows at most 2 MiB of
	// text.
	maxFiles = 16 << 20
	// unusedFor is how long a part is kept that no record refers to.
	unusedFor = time.Hour
	// failsFor is the time after which a part that kube-apiserver answers with 500 counts as missing, so
	// that all other templates are served. A shorter failure is one of etcd or of kube-apiserver.
	failsFor = 15 * time.Second
	// repairing is the state of a record while its parts are written again.
	repairing = "Repairing"
)

// errNoPart means that a part is missing, or that its content does not match its name.
var errNoPart = errors.New("a part of the files of the template is missing")

// Files stores the files of templates separately from their records: compressed, in parts that are
// named by the hash of their content. Parts that do not change are written and stored once.
type Files struct {
	cluster Cluster
	clock   clock.PassiveClock
	mu      sync.Mutex
	// failing are the parts for which kube-apiserver answers with 500.
	failing map[types.NamespacedName]failing
}

// failing holds the times of the first and of the last of several failures in a row.
type failing struct{ since, last time.Time }

// NewFiles returns Files that stores parts in the cluster.
func NewFiles(cluster Cluster, c clock.PassiveClock) *Files {
	return &Files{cluster: cluster, clock: c, failing: map[types.NamespacedName]failing{}}
}

// detach removes the files from an object, sets their names in the record, and returns the parts.
func (f *Files) detach(object Object, record *Record) (map[string]string, error) {
	tmpl, ok := object.(*aggregationv1alpha1.CoderTemplate)
	if f == nil || !ok || len(tmpl.Spec.Files) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(tmpl.Spec.Files)
	if err != nil {
		return nil, err
	}
	tmpl.Spec.Files = nil
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(data); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	parts, names := map[string]string{}, []string{}
	for rest := packed.Bytes(); len(rest) > 0; {
		part := rest[:min(partSize, len(rest))]
		rest = rest[len(part):]
		name := nameOf(part)
		names = append(names, name)
		parts[name] = base64.StdEncoding.EncodeToString(part)
	}
	record.Files = strings.Join(names, " ")
	return parts, nil
}

func nameOf(part []byte) string {
	sum := sha256.Sum256(part)
	return hex.EncodeToString(sum[:])
}

// store writes the parts that do not exist yet.
func (f *Files) store(ctx context.Context, namespace string, parts map[string]string, before string) error {
	for name, content := range parts {
		if strings.Contains(before, name) {
			continue
		}
		part := &Record{Namespace: namespace, Name: name}
		part.Object = content
		if err := f.cluster.Create(ctx, part); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// attach sets the files of a record in its object. known is the previous state of the record, or
// nil.
func (f *Files) attach(ctx context.Context, object Object, record *Record, known *held) error {
	tmpl, ok := object.(*aggregationv1alpha1.CoderTemplate)
	if f == nil || !ok || record.Files == "" {
		return nil
	}
	if known != nil && known.entry != nil && known.spec.Files == record.Files {
		// The objects share the map: objects in the Table are never modified.
		tmpl.Spec.Files = known.entry.Object.(*aggregationv1alpha1.CoderTemplate).Spec.Files
		return nil
	}
	files, err := f.load(ctx, record)
	if errors.Is(err, errNoPart) {
		// The part was deleted, or cannot be read. Without status.source, the mirror reads the files from Coder again. All
		// parts are stored again then.
		tmpl.Status.Source = nil
		record.Files, record.lost = "", true
		return nil
	}
	tmpl.Spec.Files = files
	return err
}

func (f *Files) load(ctx context.Context, record *Record) (map[string]string, error) {
	var packed []byte
	for _, name := range strings.Fields(record.Files) {
		part, err := f.cluster.Get(ctx, record.Namespace, name, "")
		tooLong := f.fails(types.NamespacedName{Namespace: record.Namespace, Name: name}, apierrors.IsInternalError(err))
		if tooLong {
			klog.FromContext(ctx).Error(err, "A part of the files of a template cannot be read; serving the template without files until they are read from Coder again",
				"kind", "CoderTemplate", "namespace", record.Namespace, "name", record.Name)
		}
		if tooLong || isAbsent(err) {
			return nil, errNoPart
		}
		if err != nil {
			return nil, err
		}
		content, err := base64.StdEncoding.DecodeString(part.Object)
		if err != nil || nameOf(content) != name {
			return nil, errNoPart
		}
		packed = append(packed, content...)
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, errNoPart
	}
	data, err := io.ReadAll(io.LimitReader(reader, maxFiles))
	if err != nil {
		return nil, errNoPart
	}
	var files map[string]string
	if err := json.Unmarshal(data, &files); err != nil {
		return nil, errNoPart
	}
	return files, nil
}

// fails records whether a request for a part was answered with 500, and reports whether that lasts too long.
func (f *Files) fails(part types.NamespacedName, fails bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !fails {
		delete(f.failing, part)
		return false
	}
	now := f.clock.Now()
	// Parts that nobody reads any more are forgotten.
	maps.DeleteFunc(f.failing, func(_ types.NamespacedName, other failing) bool { return now.Sub(other.last) >= unusedFor })
	this, known := f.failing[part]
	if !known {
		this.since = now
	}
	this.last = now
	f.failing[part] = this
	return now.Sub(this.since) >= failsFor
}

// Sweep deletes parts that no record of the Store has referred to for unusedFor, and writes parts
// again that were deleted. unused holds the time since when each part is unused. The caller keeps it
// between calls.
func (s *Store) Sweep(ctx context.Context, now time.Time, unused map[types.NamespacedName]time.Time) error {
	inUse := s.Table.withFiles()
	// found reports for each part that is in use whether it exists.
	found := map[types.NamespacedName]bool{}
	for _, h := range inUse {
		for _, part := range h.parts() {
			found[part] = false
		}
	}
	var errs []error
	for part, err := range every(ctx, s.config.Files.cluster, Query{Limit: partsAtOnce}) {
		if err != nil {
			return fmt.Errorf("looking for files of templates that are not needed: %w", errors.Join(append(errs, err)...))
		}
		key := types.NamespacedName{Namespace: part.Namespace, Name: part.Name}
		since, missed := unused[key]
		_, used := found[key]
		switch {
		case used:
			found[key] = true
			delete(unused, key)
		case !missed:
			unused[key] = now
		case now.Sub(since) >= unusedFor:
			delete(unused, key)
			if err := s.config.Files.cluster.Delete(ctx, part.Namespace, part.Name, part.Revision); err != nil && !isAbsent(err) {
				errs = append(errs, err)
			}
		}
	}
	for _, h := range inUse {
		if h.spec.State == repairing || slices.ContainsFunc(h.parts(), func(part types.NamespacedName) bool { return !found[part] }) {
			errs = append(errs, s.repair(ctx, h))
		}
	}
	return errors.Join(errs...)
}

// repair writes the parts of a record again, from the files in memory. If the record is being changed,
// the next Sweep repairs it.
func (s *Store) repair(ctx context.Context, h *held) error {
	unlock, ok := s.TryLock(h.key)
	if !ok {
		return nil
	}
	defer unlock()
	current := s.Table.get(h.key)
	if current == nil || current.revision != h.revision || current.damaged || current.entry == nil {
		return nil
	}
	next := *current
	next.lost, next.spec.Files = true, ""
	if _, err := s.update(ctx, &next, nil); err != nil && !errors.Is(err, ErrChanged) {
		return fmt.Errorf("writing the lost files of %s again: %w", h.key, err)
	}
	return nil
}

// attachVersions sets the versions of a record in its object. known is the previous state of the record, or nil.
func attachVersions(object Object, record *Record, known *held) error {
	tmpl, ok := object.(*aggregationv1alpha1.CoderTemplate)
	if !ok || record.Versions == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(record.Versions), &tmpl.Status.Versions); err != nil || known == nil || known.entry == nil {
		return err
	}
	before := known.entry.Object.(*aggregationv1alpha1.CoderTemplate).Status.Versions
	if equality.Semantic.DeepEqual(before, tmpl.Status.Versions) {
		// The objects share them, so that each watch of versions compares only the pointers.
		tmpl.Status.Versions = before
	}
	return nil
}
