package provisioner

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

const (
	// stopMargin is added to the grace period, for the kubelet.
	stopMargin = 30 * time.Second
	// withdrawalLimit is how long a Coder that does not answer may delay a deletion
	// after the pods are gone.
	withdrawalLimit = time.Minute
	// deletionPoll is when to look again.
	deletionPoll = 5 * time.Second
)

// stop deletes the Deployment and waits until its pods are gone, so that their
// jobs finish with the key and the rights that they have. Without a Coder there is
// nothing to finish. If the children shall stay, nothing is stopped.
func (r *Reconciler) stop(ctx context.Context, s *scope) error {
	if r.kit.LeavesChildren(&s.Pass) {
		return nil
	}
	if err := r.deleteDeployment(ctx, s); err != nil {
		return workload.Settled(err)
	}
	pods, err := r.pods(ctx, s)
	if err != nil {
		return err
	}
	grace := time.Duration(resources.GracePeriodSeconds(s.cr)) * time.Second
	left := s.cr.DeletionTimestamp.Add(grace + stopMargin).Sub(s.Now)
	if len(pods) == 0 || left <= 0 || s.coderIsGone() {
		return nil
	}
	s.waits = "until the pods have finished their jobs, for their grace period at most"
	return &steps.Waiting{Reason: coderv1alpha1.ReasonDeleting, Message: s.waits, After: min(deletionPoll, left)}
}

// coderIsGone says that the control plane does not exist any more, or is going.
func (s *scope) coderIsGone() bool {
	return s.cr.Spec.ControlPlaneRef != nil && (s.cp == nil || !s.cp.DeletionTimestamp.IsZero())
}

// deleteDeployment deletes the Deployment before the rest. None has a name that
// cannot be one, which an annotation may still ask for.
func (r *Reconciler) deleteDeployment(ctx context.Context, s *scope) error {
	if workload.InvalidName(s.Shared()) != "" {
		return nil
	}
	d := &appsv1.Deployment{}
	err := r.kit.Live.Get(ctx, client.ObjectKey{Namespace: s.cr.Namespace, Name: s.Workload.Name}, d)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the Deployment: %w", err)
	}
	if !metav1.IsControlledBy(d, s.cr) || !d.DeletionTimestamp.IsZero() {
		return nil
	}
	uid := d.UID
	err = r.kit.Client.Delete(ctx, d, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Deployment %q: %w", d.Name, err)
	}
	return nil
}

// withdraw deletes the keys in Coder. What is still there when the time is up is
// left behind, and an Event says so.
func (r *Reconciler) withdraw(ctx context.Context, s *scope) error {
	result, err := r.keys.Withdraw(ctx, r.keyRequest(s))
	s.left = result
	r.tellAll(s, result.Events)
	if err != nil {
		return workload.Settled(err)
	}
	if len(result.Left) == 0 {
		return nil
	}
	left := r.withdrawalEnd(s).Sub(s.Now)
	if left <= 0 || s.coderIsGone() {
		r.tellAll(s, r.keys.Abandon(r.keyRequest(s), result.Left, result.Key.Message))
		return nil
	}
	s.waits = "until its key is deleted in Coder, for a minute at most: " + workload.Redact(result.Key.Message)
	return &steps.Waiting{Reason: coderv1alpha1.ReasonDeleting, Message: s.waits, After: min(deletionPoll, left)}
}

// withdrawalEnd is when the keys are given up. It is a minute after the pods were
// seen to be gone, and where a new process does not know that, a minute after they
// must be.
func (r *Reconciler) withdrawalEnd(s *scope) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, known := r.stopped[s.cr.UID]
	if !known {
		since = s.Now
		r.stopped[s.cr.UID] = since
	}
	grace := time.Duration(resources.GracePeriodSeconds(s.cr)) * time.Second
	last := s.cr.DeletionTimestamp.Add(grace + stopMargin + withdrawalLimit)
	if end := since.Add(withdrawalLimit); end.Before(last) {
		return end
	}
	return last
}

// release lets the provisioner go. Its children go with it.
func (r *Reconciler) release(ctx context.Context, s *scope) error {
	if err := r.kit.Release(ctx, &s.Pass); err != nil {
		return err
	}
	r.keys.Forget(s.cr.UID)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stopped, s.cr.UID)
	return nil
}
