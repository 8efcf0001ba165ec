package controlplane

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/log"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/conditions"
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
	if ready := conditions.Find(next.Conditions, coderv1alpha1.ConditionReady); ready != nil {
		log.FromContext(ctx).Info("Wrote the status", "ready", ready.Status, "reason", ready.Reason)
	}
	r.tellChanges(s, base.Status.Conditions, next.Conditions)
	return nil
}
