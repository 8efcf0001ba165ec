package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
)

// writeStatus writes the status if it is not what it was, and then tells of what
// changed. The write fails where the control plane was written since it was read,
// so a cache that is behind neither undoes a newer status nor tells twice.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	next := statusOf(s)
	if equality.Semantic.DeepEqual(s.cp.Status, next) {
		return nil
	}
	base := s.cp.DeepCopy()
	s.cp.Status = next
	if err := r.client.Status().Patch(ctx, s.cp, lockedPatch(base)); err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.tellChanges(s, base.Status.Conditions, next.Conditions)
	return nil
}
