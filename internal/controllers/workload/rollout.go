package workload

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// deadlineExceeded is the reason that a Deployment gives when its rollout did not
// end in time.
const deadlineExceeded = "ProgressDeadlineExceeded"

// WatchRollout looks for the reason where the pods are not ready. A watch tells of
// the Deployment, and nothing of its pods, so it looks again soon.
func (t *Toolkit) WatchRollout(ctx context.Context, p *Pass) error {
	if p.Available() {
		return nil
	}
	// A revision that Kubernetes has not seen yet has no pods that could tell.
	if p.Deployment.Status.ObservedGeneration >= p.Deployment.Generation {
		found, err := t.podTrouble(ctx, p)
		if err != nil {
			return err
		}
		p.Trouble = found
	}
	return &steps.Waiting{
		Reason: coderv1alpha1.ReasonProgressing, Message: rolloutProgress(p.Deployment, p.Wanted()), After: PollInterval,
	}
}

// available says whether as many pods are ready as are wanted, all of the newest
// revision.
func available(d *appsv1.Deployment, wanted int32) bool {
	status := d.Status
	return status.UpdatedReplicas >= wanted && status.AvailableReplicas >= wanted && RolledOut(d)
}

// RolledOut says whether all pods are of the newest revision.
func RolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas <= d.Status.UpdatedReplicas
}

func rolloutProgress(d *appsv1.Deployment, wanted int32) string {
	status := d.Status
	if status.Replicas > status.UpdatedReplicas && status.UpdatedReplicas >= wanted {
		return "pods of an earlier revision are still there"
	}
	return fmt.Sprintf("%d of %d pods are ready", min(status.ReadyReplicas, wanted), wanted)
}

// rolloutExpired says that Kubernetes gave the rollout up.
func rolloutExpired(d *appsv1.Deployment) bool {
	progressing := deploymentCondition(d, appsv1.DeploymentProgressing)
	return progressing != nil && progressing.Status == corev1.ConditionFalse && progressing.Reason == deadlineExceeded
}

func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}
