package workload

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// ApplyServiceAccount applies the ServiceAccount of the pods. If the spec disables its creation, it
// removes the owner reference from a ServiceAccount that the operator created earlier, and keeps
// the ServiceAccount.
func (t *Toolkit) ApplyServiceAccount(ctx context.Context, p *Pass) error {
	desired := resources.ServiceAccount(p.Workload)
	if desired == nil {
		return t.detachServiceAccounts(ctx, p)
	}
	return t.Apply(ctx, p, desired)
}

// ApplyDeployment applies the Deployment.
func (t *Toolkit) ApplyDeployment(ctx context.Context, p *Pass) error {
	desired, err := resources.Deployment(p.Workload)
	if err != nil {
		return p.refuse(err)
	}
	desired.ResourceVersion = p.seen
	err = t.Apply(ctx, p, desired)
	p.DeploymentForeign = isNotOwned(err)
	if err == nil {
		p.Deployment = desired
	}
	return err
}

// ApplyService applies the Service if the spec asks for one.
func (t *Toolkit) ApplyService(ctx context.Context, p *Pass) error {
	desired := resources.Service(p.Workload)
	if desired == nil {
		return nil
	}
	err := t.Apply(ctx, p, desired)
	p.ServiceForeign = isNotOwned(err)
	return err
}

// ApplyDisruptionBudget applies the PodDisruptionBudget if the spec asks for one.
func (t *Toolkit) ApplyDisruptionBudget(ctx context.Context, p *Pass) error {
	if desired := resources.PodDisruptionBudget(p.Workload); desired != nil {
		return t.Apply(ctx, p, desired)
	}
	return nil
}

// ApplyNetworkPolicy applies the NetworkPolicy if the spec asks for one.
func (t *Toolkit) ApplyNetworkPolicy(ctx context.Context, p *Pass) error {
	if desired := resources.NetworkPolicy(p.Workload); desired != nil {
		return t.Apply(ctx, p, desired)
	}
	return nil
}

// ApplyMetricsService applies the Service of the metrics if the spec enables them.
func (t *Toolkit) ApplyMetricsService(ctx context.Context, p *Pass) error {
	if desired := resources.MetricsService(p.Workload); desired != nil {
		return t.Apply(ctx, p, desired)
	}
	return nil
}

// Apply applies an object in the owner's namespace and records a failure in p.Problems. Afterwards
// desired holds the object as the API server returned it.
func (t *Toolkit) Apply(ctx context.Context, p *Pass, desired client.Object) error {
	found, ended := t.tryApply(ctx, p, desired)
	if found != nil {
		p.Problems = append(p.Problems, *found)
	}
	return ended
}

// tryApply is Apply without recording the failure. It is for objects that have a condition of their
// own.
func (t *Toolkit) tryApply(ctx context.Context, p *Pass, desired client.Object) (*Problem, error) {
	if _, err := t.Applier.Apply(ctx, t.controlledBy(p), desired); err != nil {
		return applyTrouble(err)
	}
	return nil, nil
}

func (t *Toolkit) controlledBy(p *Pass) apply.Claim {
	return apply.Adopting(apply.ControlledBy(p.Object, t.Client.Scheme()),
		coderv1alpha1.AnnotationAdopt, p.Kind.Name+"/"+p.Object.GetName(),
		func(ctx context.Context) error { return t.confirmOwner(ctx, p.Object) })
}

// confirmOwner returns apply.ErrOwnerDeleted if the API server reports that an owner is being
// deleted or does not exist.
func (t *Toolkit) confirmOwner(ctx context.Context, owner client.Object) error {
	kind, err := apiutil.GVKForObject(owner, t.Client.Scheme())
	if err != nil {
		return fmt.Errorf("bug: %w", err)
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(kind)
	err = t.Live.Get(ctx, client.ObjectKeyFromObject(owner), live)
	switch {
	case apierrors.IsNotFound(err):
		return apply.ErrOwnerDeleted
	case err != nil:
		return fmt.Errorf("reading %s %q before it adopts: %w", kind.Kind, owner.GetName(), err)
	case live.UID != owner.GetUID(), !live.DeletionTimestamp.IsZero():
		return apply.ErrOwnerDeleted
	}
	return nil
}

// refuse ends a step whose object cannot be built from the spec.
func (p *Pass) refuse(err error) error {
	message := Redact(err.Error())
	p.Complain(coderv1alpha1.ReasonInvalidSpec, message)
	return &steps.Stalled{Reason: coderv1alpha1.ReasonInvalidSpec, Message: message}
}

// applyTrouble returns the problem to report for a failed apply, and the error with which the step
// ends. Steps that conflict with another owner's object are retried after RetryInterval, because no
// watch reports the deletion of that object.
func applyTrouble(err error) (*Problem, error) {
	var wait *steps.Waiting
	if ended := Settled(err); errors.As(ended, &wait) {
		return nil, ended
	}
	switch {
	case isNotOwned(err):
		return waitingProblem(coderv1alpha1.ReasonNotOwned, err.Error())
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return waitingProblem(coderv1alpha1.ReasonInvalidSpec, Redact(err.Error()))
	}
	return &Problem{coderv1alpha1.ReasonApplyFailed, Redact(err.Error())}, err
}

func waitingProblem(reason, message string) (*Problem, error) {
	return &Problem{reason, message}, &steps.Waiting{Reason: reason, Message: message, After: RetryInterval}
}

func isNotOwned(err error) bool {
	var refused *apply.NotOwnedError
	var waiting *steps.Waiting
	return errors.As(err, &refused) ||
		(errors.As(err, &waiting) && waiting.Reason == coderv1alpha1.ReasonNotOwned)
}

// detachServiceAccounts removes the owner reference from the ServiceAccounts that the operator
// created, so that they are not deleted with the owner.
func (t *Toolkit) detachServiceAccounts(ctx context.Context, p *Pass) error {
	list := &corev1.ServiceAccountList{}
	if err := t.listOwned(ctx, p, list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := t.detach(ctx, p, &list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// detach removes the owner reference from a child, so that the child is not deleted with the owner.
func (t *Toolkit) detach(ctx context.Context, p *Pass, child client.Object) error {
	base, ok := child.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("bug: %T is not an object", child)
	}
	if err := controllerutil.RemoveControllerReference(p.Object, child, t.Client.Scheme()); err != nil {
		return fmt.Errorf("detaching %s %q: %w", t.kindOf(child), child.GetName(), err)
	}
	if err := t.Client.Patch(ctx, child, LockedPatch(base)); client.IgnoreNotFound(err) != nil {
		return Settled(fmt.Errorf("detaching %s %q: %w", t.kindOf(child), child.GetName(), err))
	}
	return nil
}
