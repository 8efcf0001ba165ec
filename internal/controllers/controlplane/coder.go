package controlplane

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/access"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
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
		return &steps.Waiting{Reason: coderv1alpha1.ReasonWaiting, Message: "no pod of Coder is ready"}
	}
	now, err := r.basisOf(ctx, s)
	if err != nil {
		return err
	}
	s.basis = &now
	if known := r.rests.recall(s, now); known != nil && s.Available() {
		s.build, s.access, s.believed = &known.build, &known.access, true
		return nil
	}
	timeout, again := answerTimeout, workload.PollInterval
	if s.justReady = s.Now.Sub(changedAt(s.Deployment)) < freshPeriod; s.justReady {
		timeout, again = freshTimeout, freshInterval
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	build, err := r.buildInfo(ctx, s.url())
	if err != nil {
		s.coderErr = err
		return &steps.Waiting{Reason: coderv1alpha1.ReasonUnreachable, Message: err.Error(), After: again}
	}
	s.build = &build
	return nil
}

// changedAt returns the time of the last change of the pods: when enough of them became available,
// or the rollout made progress.
func changedAt(d *appsv1.Deployment) time.Time {
	var last time.Time
	for _, c := range d.Status.Conditions {
		at := c.LastTransitionTime.Time
		if c.Type == appsv1.DeploymentProgressing {
			at = c.LastUpdateTime.Time
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}

func (r *Reconciler) buildInfo(ctx context.Context, url string) (coderd.BuildInfo, error) {
	coder, err := r.connect(url)
	if err != nil {
		return coderd.BuildInfo{}, fmt.Errorf("connecting to %s: %w", url, err)
	}
	return coder.BuildInfo(ctx)
}

// basisOf returns the cluster objects on which Coder's answer depends, as the cache has them.
func (r *Reconciler) basisOf(ctx context.Context, s *scope) (basis, error) {
	names := []string{
		access.TokenSecretName(s.cp), access.CredentialsSecretName(s.cp), access.InitialAdminSecretName(s.cp),
	}
	if ref := s.cp.Spec.OperatorAccess.TokenSecretRef; ref != nil {
		names = append(names, ref.Name)
	}
	var versions []string
	for _, name := range names {
		secret := secretMetadata()
		err := r.kit.Metadata.Get(ctx, client.ObjectKey{Namespace: s.cp.Namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return basis{}, fmt.Errorf("reading Secret %q: %w", name, err)
		}
		versions = append(versions, string(secret.UID)+"/"+secret.ResourceVersion)
	}
	return basis{
		uid: s.cp.UID, generation: s.cp.Generation, url: s.url(),
		deployment: s.Deployment.UID, podTemplate: s.Deployment.Generation, secrets: strings.Join(versions, " "),
	}, nil
}
