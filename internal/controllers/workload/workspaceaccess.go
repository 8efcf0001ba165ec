package workload

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
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// ApplyWorkspaceAccess grants the rights in every namespace of the spec and
// takes them back in every other. Trouble in one namespace stops no other.
func (t *Toolkit) ApplyWorkspaceAccess(ctx context.Context, p *Pass) error {
	if p.Workload.Rights == nil {
		return nil
	}
	var waiting, failed error
	for _, namespace := range resources.WorkspaceNamespaces(p.Workload) {
		err := t.grant(ctx, p, namespace)
		if err == nil {
			continue
		}
		found, ended := grantTrouble(namespace, err)
		if found != nil {
			p.Grants = append(p.Grants, *found)
		}
		var wait *steps.Waiting
		if errors.As(ended, &wait) {
			waiting = ended
			continue
		}
		failed = errors.Join(failed, ended)
	}
	err := t.pruneWorkspaceAccess(ctx, p, t.Client, resources.WorkspaceNamespaces(p.Workload))
	if err != nil {
		p.Grants = append(p.Grants, Problem{coderv1alpha1.ReasonApplyFailed, err.Error()})
	}
	if failed = errors.Join(failed, err); failed != nil {
		return failed
	}
	return waiting
}

func (t *Toolkit) grant(ctx context.Context, p *Pass, namespace string) error {
	claim := t.grantClaim(p, namespace)
	if _, err := t.Applier.Apply(ctx, claim, resources.WorkspaceRole(p.Workload, namespace)); err != nil {
		return err
	}
	_, err := t.Applier.Apply(ctx, claim, resources.WorkspaceRoleBinding(p.Workload, namespace))
	return err
}

func (t *Toolkit) grantClaim(p *Pass, namespace string) apply.Claim {
	if namespace == p.Workload.Namespace {
		return t.controlledBy(p)
	}
	return apply.MarkedWith(p.Workload.Rights.OwnerLabels, p.Workload.Rights.OwnerAnnotations)
}

func grantTrouble(namespace string, err error) (*Problem, error) {
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
	return ": " + OneLine(rules)
}

// RemoveWorkspaceAccess takes back the rights in all namespaces: the garbage
// collector would only do so in the control plane's own. The list is not from a
// cache, which may not know yet what the last pass made.
func (t *Toolkit) RemoveWorkspaceAccess(ctx context.Context, p *Pass) error {
	if p.Workload.Rights == nil {
		return nil
	}
	err := t.pruneWorkspaceAccess(ctx, p, t.Live, nil)
	if err != nil {
		p.Grants = append(p.Grants, Problem{coderv1alpha1.ReasonApplyFailed, err.Error()})
	}
	return err
}

// pruneWorkspaceAccess deletes what carries the control plane's labels, is
// really its own, and is not meant for one of the namespaces.
func (t *Toolkit) pruneWorkspaceAccess(ctx context.Context, p *Pass, reader client.Reader, namespaces []string) error {
	wanted := map[string]bool{}
	for _, namespace := range namespaces {
		wanted[namespace+"/Role/"+resources.WorkspaceRoleName(p.Workload, namespace)] = true
		wanted[namespace+"/RoleBinding/"+resources.WorkspaceRoleBindingName(p.Workload, namespace)] = true
	}
	selector := client.MatchingLabels(p.Workload.Rights.OwnerLabels)
	bindings, roles := &rbacv1.RoleBindingList{}, &rbacv1.RoleList{}
	if err := reader.List(ctx, bindings, selector); err != nil {
		return fmt.Errorf("listing role bindings: %w", err)
	}
	if err := reader.List(ctx, roles, selector); err != nil {
		return fmt.Errorf("listing roles: %w", err)
	}
	var failed error
	for i := range bindings.Items {
		failed = errors.Join(failed, t.pruneOne(ctx, p, "RoleBinding", &bindings.Items[i], wanted))
	}
	for i := range roles.Items {
		failed = errors.Join(failed, t.pruneOne(ctx, p, "Role", &roles.Items[i], wanted))
	}
	return failed
}

func (t *Toolkit) pruneOne(ctx context.Context, p *Pass, kind string, obj client.Object, wanted map[string]bool) error {
	if wanted[obj.GetNamespace()+"/"+kind+"/"+obj.GetName()] || !t.grantClaim(p, obj.GetNamespace()).Holds(obj) {
		return nil
	}
	err := t.Client.Delete(ctx, obj, client.Preconditions{UID: ptr.To(obj.GetUID())})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %s %q in namespace %q: %w", kind, obj.GetName(), obj.GetNamespace(), err)
	}
	t.Applier.Forget(obj)
	return nil
}
