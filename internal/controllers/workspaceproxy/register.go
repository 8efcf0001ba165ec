package workspaceproxy

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
)

func (r *Reconciler) register(ctx context.Context, s *scope) error {
	d, err := s.OwnDeployment(ctx, r.kit.Client)
	if err != nil {
		return err
	}
	// If all pods are ready, Coder accepts their token.
	healthy := d != nil && framework.RolledOut(d) && d.Status.AvailableReplicas >= ptr.Deref(d.Spec.Replicas, 1)
	result, err := r.registrar.Ensure(ctx, registration.Request{Proxy: s.proxy.DeepCopy(), AccessURL: s.accessURL(), Healthy: healthy})
	r.kit.TellAll(&s.Pass, result.Events)
	if err != nil {
		return framework.Settled(err)
	}
	s.registration = &result
	if result.State == registration.Unverified {
		return nil
	}
	if err := result.NotReady(result.RequeueAfter); err != nil || result.TokenVersion == "" {
		return err
	}
	return r.kit.WaitForCache(ctx, s.proxy.Namespace, result.TokenRef.Name, result.TokenVersion)
}

// unregister removes the registration while the finalizer keeps the proxy. If Coder does not answer
// or rejects the request, the deletion is delayed until framework.DeletionLimit. After that, an Event reports what
// remains in Coder. If the children must be kept, their pods keep the registration.
func (r *Reconciler) unregister(ctx context.Context, s *scope) error {
	if r.kit.LeavesChildren(&s.Pass) {
		r.registrar.Forget(s.proxy.UID)
		if name := s.proxy.Status.ProxyName; name != "" {
			s.Stays = append(s.Stays, fmt.Sprintf("the registration %q in Coder", name))
		}
		return nil
	}
	left := s.DeletionTimeLeft(framework.DeletionLimit)
	ctx, cancel := context.WithTimeout(ctx, framework.DeletionTry)
	defer cancel()
	result, err := r.registrar.Remove(ctx, registration.Request{Proxy: s.proxy.DeepCopy()})
	r.kit.TellAll(&s.Pass, result.Events)
	switch {
	case err != nil && left > 0:
		s.waits = framework.UntilDeleted("its registration in Coder is known", err.Error())
		return framework.WaitForDeletion(left, err.Error())
	case err != nil:
		result.LeftBehind = cmp.Or(result.LeftBehind, "the record of the registration could not be read: "+err.Error())
	case result.State != ensure.Ready && left > 0:
		s.waits = framework.UntilDeleted("its registration is removed from Coder", result.Message)
		return framework.WaitForDeletion(left, result.Message)
	}
	if result.LeftBehind != "" {
		r.kit.Tell(&s.Pass, corev1.EventTypeWarning, coderv1alpha1.ReasonUnregistrationSkipped, framework.Redact(result.LeftBehind))
	}
	return nil
}
