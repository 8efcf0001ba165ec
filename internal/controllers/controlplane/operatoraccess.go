package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

func (r *Reconciler) accessRequest(s *scope) access.Request {
	return access.Request{
		ControlPlane: s.cp.DeepCopy(),
		URL:          s.url(),
		DatabaseURL:  s.databaseURL(),
		Quarantined:  s.quarantined,
		AdminJob: func(credentialsSecret string) *batchv1.Job {
			return resources.AdminJob(s.cp, s.Workload, credentialsSecret)
		},
	}
}

func (r *Reconciler) ensureAccess(ctx context.Context, s *scope) error {
	if !s.cachedUntil.IsZero() {
		return nil
	}
	result, err := r.access.Ensure(ctx, r.accessRequest(s))
	r.kit.TellAll(&s.Pass, result.Events)
	if err != nil {
		return framework.Settled(err)
	}
	s.access = &result
	return result.NotReady(cmp.Or(result.RequeueAfter, framework.PollInterval))
}

// keepService keeps a Service that the spec no longer asks for until the operator's token is
// revoked, because the operator cannot reach Coder without it.
func (r *Reconciler) keepService(ctx context.Context, s *scope) error {
	if s.url() != "" {
		return nil
	}
	held, err := r.holdsAccess(ctx, s)
	if held || err != nil {
		serving, spec := *s.Workload.Serving, *s.Workload.Serving.Spec
		spec.Service.Enabled = ptr.To(true)
		serving.Spec = &spec
		s.Workload.Serving = &serving
	}
	return err
}

// revokeDisabled revokes the operator's access if the spec disables it. After that, the step reads
// only metadata and does not call Coder.
func (r *Reconciler) revokeDisabled(ctx context.Context, s *scope) error {
	held, err := r.holdsAccess(ctx, s)
	if err != nil || !held {
		return err
	}
	return framework.Settled(r.revoke(ctx, s, framework.PollInterval))
}

// revoke revokes the operator's access. While that fails, the error waits for the given time.
func (r *Reconciler) revoke(ctx context.Context, s *scope, after time.Duration) error {
	result, err := r.access.Revoke(ctx, r.accessRequest(s))
	r.kit.TellAll(&s.Pass, result.Events)
	if err != nil {
		return err
	}
	s.access = &result
	return result.NotReady(after)
}

// holdsAccess reports whether there may be a token or an account to revoke. It reads only the
// metadata of Secrets, which is cached. A token may be in a Secret that the spec no longer names,
// so every Secret that the control plane owns counts, except that of the initial admin.
func (r *Reconciler) holdsAccess(ctx context.Context, s *scope) (bool, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.kit.Metadata.List(ctx, list, client.InNamespace(s.cp.Namespace)); err != nil {
		return false, fmt.Errorf("listing the Secrets with the operator's access: %w", err)
	}
	for i := range list.Items {
		if secret := &list.Items[i]; metav1.IsControlledBy(secret, s.cp) && secret.Name != coderv1alpha1.InitialAdminSecretName(s.cp.Name) {
			return true, nil
		}
	}
	return false, nil
}

// revokeOnDeletion revokes the operator's token while the finalizer keeps Coder running. If Coder
// does not answer, the deletion is delayed until framework.DeletionLimit. The token then remains until it
// expires.
func (r *Reconciler) revokeOnDeletion(ctx context.Context, s *scope) error {
	left := s.DeletionTimeLeft(framework.DeletionLimit)
	service := &corev1.Service{}
	err := r.kit.Live.Get(ctx, client.ObjectKeyFromObject(s.cp), service)
	switch {
	case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(service, s.cp):
		// No server may receive the token.
		if s.cp.Status.OperatorTokenSecretRef != nil && s.cp.Spec.OperatorAccess.TokenSecretRef == nil {
			r.tellSkipped(s, "the Service of Coder is not this control plane's")
		}
		return nil
	case err == nil:
		try, cancel := context.WithTimeout(ctx, framework.DeletionTry)
		defer cancel()
		err = r.revoke(try, s, 0)
	}
	if err == nil {
		return nil
	}
	if left <= 0 {
		r.tellSkipped(s, framework.Redact(err.Error()))
		return nil
	}
	return framework.WaitForDeletion(left, err.Error())
}

func (r *Reconciler) tellSkipped(s *scope, why string) {
	r.kit.Tell(&s.Pass, corev1.EventTypeWarning, coderv1alpha1.ReasonRevocationSkipped,
		"deleting the control plane without revoking the operator's token; the token expires by itself: "+why)
}
