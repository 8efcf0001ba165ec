package workspaceproxy

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy/registration"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

const (
	// removalLimit is the maximum time for which an unreachable Coder delays the deletion of a
	// workspace proxy.
	removalLimit = time.Minute
	// removalRetry is the time between two attempts, and removalTry the timeout of one attempt.
	removalRetry = 5 * time.Second
	removalTry   = 20 * time.Second
)

// register registers the proxy in Coder and keeps the registration up to date.
func (r *Reconciler) register(ctx context.Context, s *scope) error {
	healthy, err := r.podsReady(ctx, s)
	if err != nil {
		return err
	}
	result, err := r.registrar.Ensure(ctx, registration.Request{Proxy: s.proxy.DeepCopy(), AccessURL: s.accessURL(), Healthy: healthy})
	r.tell(s, result)
	if err != nil {
		return workload.Settled(err)
	}
	s.registration = &result
	switch result.State {
	case registration.Ready, registration.Unverified:
		return nil
	}
	return &steps.Waiting{Reason: result.Reason, Message: result.Message, After: result.RequeueAfter}
}

// podsReady reports whether pods exist and all of them are ready, which shows that Coder accepts
// their token.
func (r *Reconciler) podsReady(ctx context.Context, s *scope) (bool, error) {
	d, err := r.ownDeployment(ctx, s)
	if err != nil || d == nil {
		return false, err
	}
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	return workload.RolledOut(d) && d.Status.AvailableReplicas >= wanted, nil
}

// ownDeployment returns the proxy's Deployment from the cache, or nil.
func (r *Reconciler) ownDeployment(ctx context.Context, s *scope) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	err := r.kit.Client.Get(ctx, client.ObjectKey{Namespace: s.Workload.Namespace, Name: s.Workload.Name}, d)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Deployment %q: %w", s.Workload.Name, err)
	case !metav1.IsControlledBy(d, s.proxy):
		return nil, nil
	}
	return d, nil
}

// tell records the Events about the registration, whatever the result of the pass is.
func (r *Reconciler) tell(s *scope, result registration.Result) {
	for _, event := range result.Events {
		r.kit.Tell(&s.Pass, event.Type, event.Reason, workload.Redact(event.Message))
	}
}

// unregister removes the registration while the finalizer keeps the proxy. If Coder does not answer
// or rejects the request, the deletion is delayed for a minute. After that, an Event reports what
// remains in Coder.
func (r *Reconciler) unregister(ctx context.Context, s *scope) error {
	left := removalLimit - s.Now.Sub(s.proxy.DeletionTimestamp.Time)
	ctx, cancel := context.WithTimeout(ctx, removalTry)
	defer cancel()
	result, err := r.registrar.Remove(ctx, registration.Request{Proxy: s.proxy.DeepCopy()})
	r.tell(s, result)
	switch {
	case err != nil && left > 0:
		s.waits = "until its registrations in Coder are known, for at most one minute: " + workload.Redact(err.Error())
		return &steps.Waiting{Reason: coderv1alpha1.ReasonDeleting, Message: err.Error(), After: min(removalRetry, left)}
	case err != nil:
		result.LeftBehind = append(result.LeftBehind, "the registrations in Coder could not be read: "+err.Error())
	case result.State != registration.Ready && left > 0:
		s.waits = "until its registration is removed from Coder, for at most one minute: " + workload.Redact(result.Message)
		return &steps.Waiting{Reason: coderv1alpha1.ReasonDeleting, Message: result.Message, After: min(removalRetry, left)}
	}
	for _, what := range result.LeftBehind {
		r.kit.Tell(&s.Pass, corev1.EventTypeWarning, coderv1alpha1.ReasonUnregistrationSkipped, workload.Redact(what))
	}
	return nil
}
