package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// applyWorkspaceAccess grants the rights in every namespace of the spec and
// takes them back in every other. Trouble in one namespace stops no other.
func (r *Reconciler) applyWorkspaceAccess(ctx context.Context, s *scope) error {
	var waiting, failed error
	for _, namespace := range resources.WorkspaceNamespaces(s.cp) {
		err := r.grant(ctx, s, namespace)
		if err == nil {
			continue
		}
		found, ended := grantTrouble(namespace, err)
		if found != nil {
			s.grants = append(s.grants, *found)
		}
		var wait *steps.Waiting
		if errors.As(ended, &wait) {
			waiting = ended
			continue
		}
		failed = errors.Join(failed, ended)
	}
	err := r.pruneWorkspaceAccess(ctx, s, r.client, resources.WorkspaceNamespaces(s.cp))
	if err != nil {
		s.grants = append(s.grants, problem{coderv1alpha1.ReasonApplyFailed, err.Error()})
	}
	if failed = errors.Join(failed, err); failed != nil {
		return failed
	}
	return waiting
}

func (r *Reconciler) grant(ctx context.Context, s *scope, namespace string) error {
	claim := r.grantClaim(s, namespace)
	if _, err := r.applier.Apply(ctx, claim, resources.WorkspaceRole(s.cp, namespace)); err != nil {
		return err
	}
	_, err := r.applier.Apply(ctx, claim, resources.WorkspaceRoleBinding(s.cp, namespace))
	return err
}

func (r *Reconciler) grantClaim(s *scope, namespace string) apply.Claim {
	if namespace == s.cp.Namespace {
		return r.controlledBy(s)
	}
	return apply.MarkedWith(resources.OwnerLabels(s.cp), resources.OwnerAnnotations(s.cp))
}

func grantTrouble(namespace string, err error) (*problem, error) {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return waitingProblem(coderv1alpha1.ReasonNamespaceMissing, fmt.Sprintf(
			"namespace %q is being deleted; remove it from spec.rbac.workspaceNamespaces", namespace))
	case apierrors.IsNotFound(err):
		return waitingProblem(coderv1alpha1.ReasonNamespaceMissing, fmt.Sprintf(
			"namespace %q does not exist; create it, or remove it from spec.rbac.workspaceNamespaces", namespace))
	case apierrors.IsForbidden(err):
		return waitingProblem(coderv1alpha1.ReasonGrantForbidden, fmt.Sprintf(
			"in namespace %q the operator may not grant what it does not hold itself%s; give the operator these rights, or change spec.rbac.extraRules",
			namespace, missingRights(err)))
	}
	return applyTrouble(err)
}

// missingRights are the rules that the API server lists at the end of its
// refusal.
func missingRights(err error) string {
	_, rules, found := strings.Cut(err.Error(), "not currently held:")
	if !found {
		return ""
	}
	return ": " + oneLine(rules)
}

// removeWorkspaceAccess takes back the rights in all namespaces: the garbage
// collector would only do so in the control plane's own. The list is not from a
// cache, which may not know yet what the last pass made.
func (r *Reconciler) removeWorkspaceAccess(ctx context.Context, s *scope) error {
	err := r.pruneWorkspaceAccess(ctx, s, r.live, nil)
	if err != nil {
		s.grants = append(s.grants, problem{coderv1alpha1.ReasonApplyFailed, err.Error()})
	}
	return err
}

// pruneWorkspaceAccess deletes what carries the control plane's labels, is
// really its own, and is not meant for one of the namespaces.
func (r *Reconciler) pruneWorkspaceAccess(ctx context.Context, s *scope, reader client.Reader, namespaces []string) error {
	wanted := map[string]bool{}
	for _, namespace := range namespaces {
		wanted[namespace+"/Role/"+resources.WorkspaceRoleName(s.cp)] = true
		wanted[namespace+"/RoleBinding/"+resources.WorkspaceRoleBindingName(s.cp)] = true
	}
	selector := client.MatchingLabels(resources.OwnerLabels(s.cp))
	bindings, roles := &rbacv1.RoleBindingList{}, &rbacv1.RoleList{}
	if err := reader.List(ctx, bindings, selector); err != nil {
		return fmt.Errorf("listing role bindings: %w", err)
	}
	if err := reader.List(ctx, roles, selector); err != nil {
		return fmt.Errorf("listing roles: %w", err)
	}
	var failed error
	for i := range bindings.Items {
		failed = errors.Join(failed, r.pruneOne(ctx, s, "RoleBinding", &bindings.Items[i], wanted))
	}
	for i := range roles.Items {
		failed = errors.Join(failed, r.pruneOne(ctx, s, "Role", &roles.Items[i], wanted))
	}
	return failed
}

func (r *Reconciler) pruneOne(ctx context.Context, s *scope, kind string, obj client.Object, wanted map[string]bool) error {
	if wanted[obj.GetNamespace()+"/"+kind+"/"+obj.GetName()] || !r.grantClaim(s, obj.GetNamespace()).Holds(obj) {
		return nil
	}
	err := r.client.Delete(ctx, obj, client.Preconditions{UID: ptr.To(obj.GetUID())})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %s %q in namespace %q: %w", kind, obj.GetName(), obj.GetNamespace(), err)
	}
	r.applier.Forget(obj)
	return nil
}
