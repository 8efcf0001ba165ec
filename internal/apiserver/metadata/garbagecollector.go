package metadata

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// pendingFor is how long the creation of an object may take.
	pendingFor = 2 * time.Minute
	// missingFor is how long an object must be missing before its record is deleted.
	missingFor = time.Hour
	// sweepWithin is the maximum interval between sweeps for which an object counts as missing all
	// the time.
	sweepWithin = 10 * time.Minute
)

// GarbageCollector deletes records without an object. It is a fallback: the component that removes an object
// also deletes its record.
type GarbageCollector struct {
	records Records

	mu     sync.Mutex
	planes map[types.NamespacedName]*sweeps
}

// sweeps holds the results of the last sweep of a control plane.
type sweeps struct {
	last  time.Time
	since map[types.UID]time.Time
}

// NewGarbageCollector returns a GarbageCollector for these records.
func NewGarbageCollector(records Records) *GarbageCollector {
	return &GarbageCollector{records: records, planes: map[types.NamespacedName]*sweeps{}}
}

// Sweep deletes the records of a control plane whose objects do not exist: pending ones after two
// minutes, and others after their object was missing in all sweeps of one hour. It may only be
// called right after Coder was read completely. It must be called at least every ten minutes: after
// a longer pause the hour starts again. exists reports whether the object of a record exists. For a
// pending record it reports whether an object exists that may have been created for it.
func (j *GarbageCollector) Sweep(ctx context.Context, controlPlane types.NamespacedName, now time.Time, exists func(*Record) bool) (removed []*Record, err error) {
	var errs []error
	for _, record := range j.abandoned(controlPlane, now, exists) {
		switch err := j.records.Delete(ctx, record); {
		case apierrors.IsConflict(err):
			// The record was just written. The next sweep checks it again.
		case err != nil:
			errs = append(errs, err)
		default:
			removed = append(removed, record)
		}
	}
	return removed, errors.Join(errs...)
}

// abandoned returns the records to delete, and remembers the missing objects.
func (j *GarbageCollector) abandoned(controlPlane types.NamespacedName, now time.Time, exists func(*Record) bool) []*Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := j.planes[controlPlane]
	if before == nil || now.Sub(before.last) > sweepWithin {
		before = &sweeps{}
	}
	seen := &sweeps{last: now, since: map[types.UID]time.Time{}}
	j.planes[controlPlane] = seen
	var abandoned []*Record
	for _, record := range j.records.List(controlPlane) {
		if record.Pending() {
			if now.Sub(record.CreatedAt.Time) > pendingFor && !exists(record) {
				abandoned = append(abandoned, record)
			}
			continue
		}
		if exists(record) {
			continue
		}
		since, missed := before.since[record.UID]
		if !missed {
			since = now
		}
		seen.since[record.UID] = since
		if now.Sub(since) >= missingFor {
			abandoned = append(abandoned, record)
		}
	}
	return abandoned
}

// Forget drops the state of a control plane that is no longer served.
func (j *GarbageCollector) Forget(controlPlane types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.planes, controlPlane)
}
