package controlplane

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
)

const (
	// answerTimeout is the timeout of the request that checks whether Coder answers.
	answerTimeout = 10 * time.Second
	// Shortly after pods become ready, the Service may still route to the previous pods, which no
	// longer answer. So the first requests have a short timeout and are repeated soon.
	freshPeriod   = 30 * time.Second
	freshTimeout  = 3 * time.Second
	freshInterval = 2 * time.Second
)

// askCoder requests Coder's version, without a token, if a pod is ready. The step needs the steps
// of the Deployment and the Service, so it only calls Coder if both belong to the control plane. It
// reuses the result of an earlier pass, for up to an hour, as long as the cluster objects on which
// the result depends have not changed.
func (r *Reconciler) askCoder(ctx context.Context, s *scope) error {
	if s.Deployment.Status.ReadyReplicas == 0 {
		return ensure.Waits(coderv1alpha1.ReasonWaiting, 0, "no pod of Coder is ready")
	}
	var err error
	if s.basis, err = r.basisOf(ctx, s); err != nil {
		return err
	}
	if known, ok := r.answers.Get(client.ObjectKeyFromObject(s.cp), s.basis, s.Now); ok && s.Available() {
		s.build, s.access, s.cachedUntil = &known.Value.build, &known.Value.access, known.Until
		return nil
	}
	// The pods changed when enough of them became available, or the rollout made progress.
	var changed time.Time
	for _, c := range s.Deployment.Status.Conditions {
		at := c.LastTransitionTime.Time
		if c.Type == appsv1.DeploymentProgressing {
			at = c.LastUpdateTime.Time
		}
		if at.After(changed) {
			changed = at
		}
	}
	timeout, again := answerTimeout, framework.PollInterval
	if s.justReady = s.Now.Sub(changed).Abs() < freshPeriod; s.justReady {
		timeout, again = freshTimeout, freshInterval
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	coder, err := r.kit.NewClient(coderd.Config{URL: s.url(), Timeout: answerTimeout})
	var build coderd.BuildInfo
	if err == nil {
		build, err = coder.BuildInfo(ctx)
	}
	if err != nil {
		s.coderErr = err
		return ensure.Waits(coderv1alpha1.ReasonUnreachable, again, "%v", err)
	}
	s.build = &build
	return nil
}

// answer is what a working Coder answered. It is cached, so that a pass with another trigger does not
// ask again, as long as nothing changes on which it depends.
type answer struct {
	build  coderd.BuildInfo
	access access.Result
}

// basisOf identifies everything in the cluster on which Coder's answer depends, as the cache has it.
// It changes when the spec of the control plane or of its Deployment changes, when the aggregated API quarantines the
// control plane, and with each write to one of the Secrets.
func (r *Reconciler) basisOf(ctx context.Context, s *scope) (ensure.Digest, error) {
	names := []string{
		access.TokenSecretName(s.cp), access.CredentialsSecretName(s.cp), coderv1alpha1.InitialAdminSecretName(s.cp.Name),
	}
	if ref := s.cp.Spec.OperatorAccess.TokenSecretRef; ref != nil {
		names = append(names, ref.Name)
	}
	parts := []string{
		string(s.cp.UID), fmt.Sprint(s.cp.Generation), s.url(), string(s.Deployment.UID), fmt.Sprint(s.Deployment.Generation),
		fmt.Sprint(s.quarantined),
	}
	for _, name := range names {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := r.kit.Metadata.Get(ctx, client.ObjectKey{Namespace: s.cp.Namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return ensure.Digest{}, fmt.Errorf("reading Secret %q: %w", name, err)
		}
		parts = append(parts, string(secret.UID), secret.ResourceVersion)
	}
	return ensure.DigestOf(parts...), nil
}
