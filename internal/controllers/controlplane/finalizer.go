package controlplane

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
)

// ensureFinalizer comes before anything that the garbage collector would leave
// behind: rights in other namespaces, and the token in Coder.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) error {
	base := s.cp.DeepCopy()
	if !controllerutil.AddFinalizer(s.cp, coderv1alpha1.FinalizerCleanup) {
		return nil
	}
	if err := r.client.Patch(ctx, s.cp, lockedPatch(base)); err != nil {
		return settled(fmt.Errorf("adding finalizer %q: %w", coderv1alpha1.FinalizerCleanup, err))
	}
	return nil
}

// release lets the control plane go. Its children go with it.
func (r *Reconciler) release(ctx context.Context, s *scope) error {
	base := s.cp.DeepCopy()
	if !controllerutil.RemoveFinalizer(s.cp, coderv1alpha1.FinalizerCleanup) {
		s.released = true
		return nil
	}
	err := r.client.Patch(ctx, s.cp, lockedPatch(base))
	if client.IgnoreNotFound(err) != nil {
		return settled(fmt.Errorf("removing finalizer %q: %w", coderv1alpha1.FinalizerCleanup, err))
	}
	s.released = true
	r.forget(s)
	return nil
}

// forget drops what is remembered of the children in the control plane's own
// namespace.
func (r *Reconciler) forget(s *scope) {
	var children []client.Object
	if deployment, err := resources.Deployment(s.cp, s.inputs); err == nil {
		children = append(children, deployment)
	}
	if service := resources.Service(s.cp); service != nil {
		children = append(children, service)
	}
	if account := resources.ServiceAccount(s.cp); account != nil {
		children = append(children, account)
	}
	for _, child := range children {
		r.applier.Forget(child)
	}
}

// lockedPatch fails where somebody wrote the object since it was read, so that a
// cache that is behind cannot undo that.
func lockedPatch(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}
