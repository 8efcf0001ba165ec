package records

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// errDamaged is in the error about a record whose text cannot be decoded. Only a manual edit of a
// record causes this.
var errDamaged = errors.New("its text cannot be read; the operator writes it again when it has read the object from Coder")

func damagedError(record *Record, cause error) error {
	return fmt.Errorf("record %s/%s: %w: %w", record.Namespace, record.Name, errDamaged, cause)
}

// readError returns 503 for a damaged record: the object exists, and the record is repaired soon.
func readError(ctx context.Context, key string, err error) error {
	if errors.Is(err, errDamaged) {
		return unavailable(ctx, "reading "+key, err)
	}
	return internal(err)
}

// holdShown is like hold, for a record in a list or a watch. A damaged record does not fail the
// list or the watch, because that would make all other objects unavailable. Its object stays as it
// was known before. If it was not known, it is omitted until the record is repaired.
func (s *Store) holdShown(ctx context.Context, record *Record) (*held, error) {
	h, err := s.hold(ctx, record)
	if !errors.Is(err, errDamaged) {
		return h, err
	}
	klog.FromContext(ctx).Error(err, "Ignoring a change of a record")
	h = &held{
		key: s.Key(record.Namespace, record.Name), revision: record.Revision, damaged: true,
		controlPlane: types.NamespacedName{Namespace: record.Namespace, Name: record.ControlPlane},
	}
	h.spec.ControlPlane, h.spec.ID = record.ControlPlane, record.ID
	if known := s.Table.get(h.key); known != nil {
		h.spec, h.hash, h.kept, h.controlPlane = known.spec, known.hash, known.kept, known.controlPlane
		if known.entry != nil {
			entry := *known.entry
			entry.Damaged = true
			h.entry = &entry
		}
	}
	h.spec.Claim = record.Claim
	return h, nil
}
