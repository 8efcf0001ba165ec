package controlplane

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// decidePrefix decides once what stands in front of the names of this control
// plane's templates and workspaces. The lock covers the read, the decision and
// the write, and only one process runs this controller, so no two control planes
// of a namespace come out as the first.
func (r *Reconciler) decidePrefix(ctx context.Context, s *scope) error {
	if s.cp.Status.ObjectNamePrefix != nil {
		return nil
	}
	r.prefixes.Lock()
	defer r.prefixes.Unlock()
	list := &coderv1alpha1.CoderControlPlaneList{}
	if err := r.live.List(ctx, list, client.InNamespace(s.cp.Namespace)); err != nil {
		return fmt.Errorf("listing the control planes of namespace %q: %w", s.cp.Namespace, err)
	}
	base := s.cp.DeepCopy()
	s.cp.Status.ObjectNamePrefix = ptr.To(prefixFor(s.cp, list.Items))
	if err := r.client.Status().Patch(ctx, s.cp, lockedPatch(base)); err != nil {
		s.cp = base
		return settled(fmt.Errorf("writing status.objectNamePrefix: %w", err))
	}
	return nil
}

// prefixFor is empty for the first control plane of a namespace: the one that is
// it already, or else the oldest that has a claim to be it.
func prefixFor(cp *coderv1alpha1.CoderControlPlane, all []coderv1alpha1.CoderControlPlane) string {
	for i := range all {
		other := &all[i]
		if other.UID == cp.UID {
			continue
		}
		taken := other.Status.ObjectNamePrefix != nil && *other.Status.ObjectNamePrefix == ""
		if taken || (undecided(other) && older(other, cp)) {
			return cp.Name + "."
		}
	}
	return ""
}

func undecided(cp *coderv1alpha1.CoderControlPlane) bool {
	return cp.Status.ObjectNamePrefix == nil && cp.DeletionTimestamp.IsZero() &&
		!cp.Spec.OperatorAccess.Disabled && invalidName(cp.Name) == ""
}

func older(a, b *coderv1alpha1.CoderControlPlane) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
