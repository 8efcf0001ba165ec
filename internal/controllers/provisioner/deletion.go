package provisioner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// stopMargin is added to the grace period, because the kubelet may need longer to stop a pod.
const stopMargin = 30 * time.Second

// stop deletes the Deployment and waits until its pods are gone, so that they finish their jobs
// with their key and permissions. If the control plane is gone, there are no jobs to finish. If the
// children must be kept, nothing is stopped, and pods that an upgrade has stopped start again. When the
// time limit is exceeded, the Deployment is left to the garbage collector.
func (r *Reconciler) stop(ctx context.Context, s *scope) error {
	if r.kit.LeavesChildren(&s.Pass) {
		return r.kit.ResumeOrphaned(ctx, &s.Pass)
	}
	var pods []corev1.Pod
	err := r.deleteDeployment(ctx, s)
	if err == nil {
		pods, err = r.kit.RunningPods(ctx, &s.Pass)
	}
	grace := time.Duration(resources.GracePeriodSeconds(s.cr)) * time.Second
	left := s.DeletionTimeLeft(grace + stopMargin)
	switch {
	case left <= 0:
		return nil
	case err != nil:
		return framework.Settled(err)
	case len(pods) == 0, s.coderIsGone():
		return nil
	}
	s.waits = "until the pods have finished their jobs, for at most their termination grace period"
	return framework.WaitForDeletion(left, s.waits)
}

func (s *scope) coderIsGone() bool {
	return s.cr.Spec.ControlPlaneRef != nil && (s.cp == nil || !s.cp.DeletionTimestamp.IsZero())
}

// deleteDeployment deletes the Deployment before the other children. If the workload name is
// invalid, which an annotation can cause, no Deployment can exist.
func (r *Reconciler) deleteDeployment(ctx context.Context, s *scope) error {
	if framework.InvalidName(&s.Pass) != "" {
		return nil
	}
	d, err := s.OwnDeployment(ctx, r.kit.Live)
	if err != nil || d == nil || !d.DeletionTimestamp.IsZero() {
		return err
	}
	err = r.kit.Client.Delete(ctx, d, client.Preconditions{UID: new(d.UID)}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Deployment %q: %w", d.Name, err)
	}
	return nil
}

// withdraw deletes the keys in Coder. When the time limit is exceeded, it leaves the remaining keys
// behind and records an Event. If the children must be kept, their pods keep their key.
func (r *Reconciler) withdraw(ctx context.Context, s *scope) error {
	if r.kit.LeavesChildren(&s.Pass) {
		if status := s.cr.Status; status.ProvisionerKeyName != "" {
			s.Stays = append(s.Stays, fmt.Sprintf("provisioner key %q in organization %q", status.ProvisionerKeyName, status.OrganizationName))
		}
		return nil
	}
	result, err := r.keys.Withdraw(ctx, r.keyRequest(s))
	r.kit.TellAll(&s.Pass, result.Events)
	// Deleting the keys is given up framework.DeletionLimit after this process saw that the pods are gone, or at the latest
	// that long after the grace period must have ended.
	since, _ := r.stopped.LoadOrStore(s.cr.UID, s.Now)
	grace := time.Duration(resources.GracePeriodSeconds(s.cr)) * time.Second
	left := min(s.DeletionTimeLeft(grace+stopMargin+framework.DeletionLimit), since.(time.Time).Add(framework.DeletionLimit).Sub(s.Now))
	switch {
	case err != nil && left > 0:
		return framework.Settled(err)
	case err != nil:
		r.kit.Tell(&s.Pass, corev1.EventTypeWarning, coderv1alpha1.ReasonProvisionerKeyLeftBehind,
			"the provisioner keys could not be deleted; delete them in Coder: "+framework.Redact(err.Error()))
		return nil
	case len(result.Left) == 0:
		return nil
	case left <= 0, s.coderIsGone():
		r.kit.TellAll(&s.Pass, r.keys.Abandon(r.keyRequest(s), result.Left, result.Key.Message))
		return nil
	}
	s.waits = framework.UntilDeleted("its key is deleted in Coder", result.Key.Message)
	return framework.WaitForDeletion(left, s.waits)
}

func (r *Reconciler) release(ctx context.Context, s *scope) error {
	if err := r.kit.Release(ctx, &s.Pass); err != nil {
		return err
	}
	r.keys.Forget(s.cr.UID)
	r.stopped.Delete(s.cr.UID)
	return nil
}
