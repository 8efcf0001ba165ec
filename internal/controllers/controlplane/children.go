package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

func (r *Reconciler) applyServiceAccount(ctx context.Context, s *scope) error {
	desired := resources.ServiceAccount(s.cp)
	if desired == nil {
		return r.detachServiceAccounts(ctx, s)
	}
	return r.applyChild(ctx, s, desired)
}

func (r *Reconciler) applyDeployment(ctx context.Context, s *scope) error {
	desired, err := resources.Deployment(s.cp, s.inputs)
	if err != nil {
		found, ended := waitingProblem(coderv1alpha1.ReasonInvalidSpec, err.Error())
		s.problems = append(s.problems, *found)
		return ended
	}
	err = r.applyChild(ctx, s, desired)
	s.deploymentForeign = isNotOwned(err)
	if err == nil {
		s.deployment = desired
	}
	return err
}

func (r *Reconciler) applyService(ctx context.Context, s *scope) error {
	desired := resources.Service(s.cp)
	if desired == nil {
		return nil
	}
	err := r.applyChild(ctx, s, desired)
	s.serviceForeign = isNotOwned(err)
	return err
}

// applyChild applies an object of the control plane's own namespace, and notes
// what is in the way.
func (r *Reconciler) applyChild(ctx context.Context, s *scope, desired client.Object) error {
	_, err := r.applier.Apply(ctx, r.controlledBy(s), desired)
	if err == nil {
		return nil
	}
	found, ended := applyTrouble(err)
	if found != nil {
		s.problems = append(s.problems, *found)
	}
	return ended
}

func (r *Reconciler) controlledBy(s *scope) apply.Claim {
	return apply.ControlledBy(s.cp, r.client.Scheme())
}

// applyTrouble says what a person should read about an apply that failed, and
// how the step ends. No watch tells when someone else's object goes away.
func applyTrouble(err error) (*problem, error) {
	var wait *steps.Waiting
	if ended := settled(err); errors.As(ended, &wait) {
		return nil, ended
	}
	switch {
	case isNotOwned(err):
		return waitingProblem(coderv1alpha1.ReasonNotOwned, err.Error())
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return waitingProblem(coderv1alpha1.ReasonInvalidSpec, redact(err.Error(), nil))
	}
	return &problem{coderv1alpha1.ReasonApplyFailed, redact(err.Error(), nil)}, err
}

func waitingProblem(reason, message string) (*problem, error) {
	return &problem{reason, message}, &steps.Waiting{Reason: reason, Message: message, After: restInterval}
}

func isNotOwned(err error) bool {
	var refused *apply.NotOwnedError
	var waiting *steps.Waiting
	return errors.As(err, &refused) ||
		(errors.As(err, &waiting) && waiting.Reason == coderv1alpha1.ReasonNotOwned)
}

// detachServiceAccounts leaves a ServiceAccount that the operator made to
// whoever switched its making off: it stays, and is not deleted with the control
// plane.
func (r *Reconciler) detachServiceAccounts(ctx context.Context, s *scope) error {
	list := &corev1.ServiceAccountList{}
	if err := r.client.List(ctx, list, client.InNamespace(s.cp.Namespace),
		client.MatchingLabels{coderv1alpha1.LabelInstance: s.cp.Name}); err != nil {
		return fmt.Errorf("listing service accounts: %w", err)
	}
	for i := range list.Items {
		account := &list.Items[i]
		if !metav1.IsControlledBy(account, s.cp) {
			continue
		}
		base := account.DeepCopy()
		if err := controllerutil.RemoveControllerReference(s.cp, account, r.client.Scheme()); err != nil {
			return fmt.Errorf("detaching service account %q: %w", account.Name, err)
		}
		if err := r.client.Patch(ctx, account, lockedPatch(base)); client.IgnoreNotFound(err) != nil {
			return settled(fmt.Errorf("detaching service account %q: %w", account.Name, err))
		}
	}
	return nil
}

// oneLine makes a sentence of a message of several lines.
func oneLine(message string) string {
	return strings.Join(strings.Fields(message), " ")
}
