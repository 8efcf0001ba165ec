package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// deadlineExceeded is the reason of the condition Progressing of a Deployment whose rollout
// exceeded its deadline.
const deadlineExceeded = "ProgressDeadlineExceeded"

// WatchRollout looks for the reason why pods are not ready. The controller watches the Deployment,
// but not its pods, so the step asks for another pass after PollInterval.
func (t *Toolkit) WatchRollout(ctx context.Context, p *Pass) error {
	if p.Available() {
		return nil
	}
	// As long as Kubernetes has not observed the new revision, it has no pods to inspect.
	if p.Deployment.Status.ObservedGeneration >= p.Deployment.Generation {
		found, err := t.podTrouble(ctx, p)
		if err != nil {
			return err
		}
		p.Trouble = found
	}
	return ensure.Waits(coderv1alpha1.ReasonProgressing, PollInterval, "%s", rolloutProgress(p.Deployment, p.Wanted()))
}

// available reports whether the wanted number of pods is available and all pods are of the newest
// revision.
func available(d *appsv1.Deployment, wanted int32) bool {
	status := d.Status
	return status.UpdatedReplicas >= wanted && status.AvailableReplicas >= wanted && RolledOut(d)
}

// RolledOut reports whether all pods are of the newest revision.
func RolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas <= d.Status.UpdatedReplicas
}

func rolloutProgress(d *appsv1.Deployment, wanted int32) string {
	status := d.Status
	if status.Replicas > status.UpdatedReplicas && status.UpdatedReplicas >= wanted {
		return "pods of an earlier revision still exist"
	}
	return fmt.Sprintf("%d of %d pods are ready", min(status.ReadyReplicas, wanted), wanted)
}

// rolloutExpired reports whether the rollout exceeded its progress deadline. Until Kubernetes has
// observed the new revision, the status is about the previous one.
func rolloutExpired(d *appsv1.Deployment) bool {
	progressing := deploymentCondition(d, appsv1.DeploymentProgressing)
	return d.Status.ObservedGeneration >= d.Generation && progressing != nil && progressing.Status == corev1.ConditionFalse && progressing.Reason == deadlineExceeded
}

func deploymentCondition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == kind {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// scaledByOthers reports whether another client, for example a HorizontalPodAutoscaler, owns the
// number of replicas and the spec has not asked for another number since.
func (t *Toolkit) scaledByOthers(ctx context.Context, p *Pass) (bool, error) {
	d, err := p.OwnDeployment(ctx, t.Client)
	if d == nil || err != nil {
		return false, err
	}
	// A stale cache may not contain the last change of an autoscaler. With this resource version,
	// an apply that would undo the change fails.
	p.seen = d.ResourceVersion
	asked := strconv.Itoa(int(resources.Replicas(p.Workload)))
	return d.Annotations[coderv1alpha1.AnnotationReplicas] == asked && replicasOwnedByOthers(d, fieldOwner), nil
}

func replicasOwnedByOthers(d *appsv1.Deployment, fieldOwner string) bool {
	for _, entry := range d.ManagedFields {
		if entry.FieldsV1 == nil || (entry.Manager == fieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply) {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		if _, owns := fields.Spec["f:replicas"]; owns {
			return true
		}
	}
	return false
}
