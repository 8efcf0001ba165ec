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
	// pendingFor is how long an object may take to be created.
	pendingFor = 2 * time.Minute
	// missingFor is how long an object must be missed before its record goes.
	missingFor = time.Hour
	// sweepWithin is how long a missing object counts as missed all the time.
	sweepWithin = 10 * time.Minute
)

// Janitor removes records that nothing belongs to. It is the last resort: who
// sees an object go deletes its record.
type Janitor struct {
	records Records

	mu     sync.Mutex
	planes map[types.NamespacedName]*sweeps
}

// sweeps is what was seen of a control plane.
type sweeps struct {
	last  time.Time
	since map[types.UID]time.Time
}

// NewJanitor makes a janitor of these records.
func NewJanitor(records Records) *Janitor {
	return &Janitor{records: records, planes: map[types.NamespacedName]*sweeps{}}
}

// Sweep removes the records of a control plane whose objects are not there: those
// that were being created for more than two minutes, and those that were missed
// in every sweep of an hour. It may only be called when Coder was just read
// completely, and has to be every ten minutes at least: after a longer pause the
// hour begins anew. exists says whether the object of a record is there, and of a
// pending record, whether an object is there that may have been created for it.
func (j *Janitor) Sweep(ctx context.Context, controlPlane types.NamespacedName, now time.Time, exists func(*Record) bool) (removed []*Record, err error) {
	var errs []error
	for _, record := range j.abandoned(controlPlane, now, exists) {
		switch err := j.records.Delete(ctx, record); {
		case apierrors.IsConflict(err):
			// Somebody just wrote it. The next sweep looks again.
		case err != nil:
			errs = append(errs, err)
		default:
			removed = append(removed, record)
		}
	}
	return removed, errors.Join(errs...)
}

// abandoned gives the records that have to go, and remembers those missed.
func (j *Janitor) abandoned(controlPlane types.NamespacedName, now time.Time, exists func(*Record) bool) []*Record {
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
			if j.superseded(record) || now.Sub(record.CreatedAt.Time) > pendingFor && !exists(record) {
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

// superseded says that the record of the created object has taken the place of a
// pending one.
func (j *Janitor) superseded(pending *Record) bool {
	_, stands := j.records.PendingFor(pending.ControlPlane, pending.Kind, pending.Name)
	return !stands
}

// Forget drops what was seen of a control plane that is no longer served.
func (j *Janitor) Forget(controlPlane types.NamespacedName) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.planes, controlPlane)
}
