package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// ApplyWorkspaceAccess grants the permissions for workspaces in every namespace of the spec and
// revokes them in all others. A failure in one namespace does not affect the others, and what was
// granted there before stays.
func (t *Toolkit) ApplyWorkspaceAccess(ctx context.Context, p *Pass) error {
	if p.Workload.Rights == nil {
		return nil
	}
	var step ending
	var failed []string
	p.Granted = []string{}
	for _, namespace := range resources.WorkspaceNamespaces(p.Workload) {
		err := t.grant(ctx, p, namespace)
		if err == nil {
			p.Granted = append(p.Granted, namespace)
			continue
		}
		// What an earlier pass granted, maybe under other names, is still granted.
		if t.watches(namespace) {
			if before, err := t.ownBindings(ctx, p, namespace); err == nil && len(before) > 0 {
				p.Granted = append(p.Granted, namespace)
			}
		}
		failed = append(failed, namespace)
		found, ended := t.grantTrouble(namespace, err)
		if found != nil {
			p.Grants = append(p.Grants, *found)
		}
		step.add(ended)
	}
	err := t.pruneWorkspaceAccess(ctx, p, t.Client, resources.WorkspaceNamespaces(p.Workload), failed)
	if err != nil {
		p.Grants = append(p.Grants, Problem{coderv1alpha1.ReasonApplyFailed, err.Error()})
	}
	step.add(err)
	return step.err()
}

// ownBindings returns the owner's RoleBindings in a namespace, also those with earlier names.
func (t *Toolkit) ownBindings(ctx context.Context, p *Pass, namespace string) ([]client.Object, error) {
	found, err := t.list(ctx, t.Client, &rbacv1.RoleBinding{}, client.MatchingLabels(p.Workload.Rights.OwnerLabels), client.InNamespace(namespace))
	return slices.DeleteFunc(found, func(binding client.Object) bool { return !t.ownsGrant(p, binding) }), err
}

// keepSubjects adds the ServiceAccounts to a RoleBinding that already have the permissions in its
// namespace and that pods still use.
func (t *Toolkit) keepSubjects(ctx context.Context, p *Pass, desired *rbacv1.RoleBinding) error {
	found, err := t.ownBindings(ctx, p, desired.Namespace)
	if err != nil {
		return err
	}
	for _, binding := range found {
		for _, subject := range binding.(*rbacv1.RoleBinding).Subjects {
			account := subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == p.Workload.Namespace
			if !account || slices.Contains(desired.Subjects, subject) {
				continue
			}
			used, err := t.usesAccount(ctx, p, subject.Name)
			if err != nil {
				return err
			}
			if used {
				desired.Subjects = append(desired.Subjects, subject)
			}
		}
	}
	return nil
}

// usesAccount reports whether the Deployment, or a pod that has not ended, uses a ServiceAccount that the
// spec named earlier. A pod that is being deleted is one of them: a provisioner finishes its job first.
// No watch reports the end of a pod, so the object then gets another pass.
func (t *Toolkit) usesAccount(ctx context.Context, p *Pass, name string) (bool, error) {
	// A Deployment without pods may still create some, if this pass cannot update it.
	used := p.Workload.Live != nil && p.Workload.Live.Spec.ServiceAccountName == name
	if !used {
		pods, err := t.RunningPods(ctx, p)
		if err != nil {
			return false, fmt.Errorf("looking for pods that use ServiceAccount %q, which the spec named before: %w", name, err)
		}
		used = slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.ServiceAccountName == name })
	}
	if used {
		p.Outcome.RequeueAfter = ensure.Sooner(p.Outcome.RequeueAfter, PollInterval)
	}
	return used, nil
}

// grant grants the permissions in a namespace.
func (t *Toolkit) grant(ctx context.Context, p *Pass, namespace string) error {
	if !t.watches(namespace) {
		return fmt.Errorf("the operator does not watch namespace %q, so it grants and revokes no permissions there; "+
			"add it to the operator's --watch-namespaces, or remove it from spec.rbac and delete the Roles and RoleBindings "+
			"with the labels %q there, if there are any", namespace, labels.FormatLabels(p.Workload.Rights.OwnerLabels))
	}
	claim := t.grantClaim(p, namespace)
	role, binding := resources.WorkspaceRole(p.Workload, namespace), resources.WorkspaceRoleBinding(p.Workload, namespace)
	if err := t.keepSubjects(ctx, p, binding); err != nil {
		return err
	}
	granted, version, err := t.granted(ctx, claim, binding)
	if err != nil {
		return err
	}
	grant := author.Grant{Namespace: namespace, Role: role.Name, Rules: role.Rules, Granted: granted}
	if err := t.CheckAuthor(ctx, p.Object, grant); err != nil {
		return err
	}
	// Rules that are already granted were not checked. The version makes the apply fail if they
	// changed since.
	role.ResourceVersion = version
	if _, err = t.Applier.Apply(ctx, claim, role); err == nil {
		_, err = t.Applier.Apply(ctx, claim, binding)
	}
	return err
}

// granted returns the rules that the operator's own Role and RoleBinding already grant to the
// subjects, and the resource version of that Role. Like kube-apiserver, the operator checks only
// new permissions, so a grant remains when its author loses those permissions.
func (t *Toolkit) granted(ctx context.Context, claim apply.Claim, desired *rbacv1.RoleBinding) ([]rbacv1.PolicyRule, string, error) {
	binding, role := &rbacv1.RoleBinding{}, &rbacv1.Role{}
	err := t.Client.Get(ctx, client.ObjectKeyFromObject(desired), binding)
	if err == nil {
		err = t.Client.Get(ctx, client.ObjectKey{Namespace: desired.Namespace, Name: desired.RoleRef.Name}, role)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, "", nil
	case err != nil:
		return nil, "", fmt.Errorf("reading what is granted in namespace %q: %w", desired.Namespace, err)
	case !claim.Holds(binding), !claim.Holds(role), binding.RoleRef != desired.RoleRef,
		!slices.Contains(binding.Subjects, desired.Subjects[0]):
		return nil, "", nil
	}
	return role.Rules, role.ResourceVersion, nil
}

func (t *Toolkit) grantClaim(p *Pass, namespace string) apply.Claim {
	if namespace == p.Workload.Namespace {
		return t.controlledBy(p)
	}
	return apply.MarkedWith(p.Workload.Rights.OwnerLabels, p.Workload.Rights.OwnerAnnotations)
}

func (t *Toolkit) watches(namespace string) bool {
	return len(t.Namespaces) == 0 || slices.Contains(t.Namespaces, namespace)
}

func (t *Toolkit) grantTrouble(namespace string, err error) (*Problem, error) {
	var refused *author.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Unknown:
		return waitingProblem(coderv1alpha1.ReasonAuthorUnknown, err.Error())
	case errors.As(err, &refused):
		return waitingProblem(coderv1alpha1.ReasonAuthorForbidden, err.Error())
	case !t.watches(namespace):
		return waitingProblem(coderv1alpha1.ReasonNamespaceNotWatched, err.Error())
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return waitingProblem(coderv1alpha1.ReasonNamespaceMissing, fmt.Sprintf(
			"namespace %q is being deleted; remove it from spec.rbac", namespace))
	case apierrors.IsNotFound(err):
		return waitingProblem(coderv1alpha1.ReasonNamespaceMissing, fmt.Sprintf(
			"namespace %q does not exist; create it, or remove it from spec.rbac", namespace))
	case apierrors.IsForbidden(err):
		// The API server lists the rules at the end of its error.
		_, missing, found := strings.Cut(err.Error(), "not currently held:")
		if found {
			missing = ": " + redaction.OneLine(missing)
		}
		return waitingProblem(coderv1alpha1.ReasonGrantForbidden, fmt.Sprintf(
			"in namespace %q the operator cannot grant permissions that it does not have itself%s; grant them to the operator, or change spec.rbac",
			namespace, missing))
	}
	return applyTrouble(err)
}

// RemoveWorkspaceAccess revokes the permissions in all namespaces. The garbage collector would do
// that only in the owner's own namespace. It lists without the cache, which may not contain the
// objects of the last pass yet. A watched namespace in which the operator has no permissions, for
// example because it is being deleted, delays the deletion until DeletionLimit. If the children must
// be kept, their pods keep the permissions.
func (t *Toolkit) RemoveWorkspaceAccess(ctx context.Context, p *Pass) error {
	if p.Workload.Rights == nil {
		return nil
	}
	if t.LeavesChildren(p) {
		if len(resources.WorkspaceNamespaces(p.Workload)) > 0 {
			p.Stays = append(p.Stays, fmt.Sprintf("the Roles and RoleBindings with the labels %q", labels.FormatLabels(p.Workload.Rights.OwnerLabels)))
		}
		return nil
	}
	err := t.pruneWorkspaceAccess(ctx, p, t.Live, nil, nil)
	if err != nil {
		p.Grants = append(p.Grants, Problem{coderv1alpha1.ReasonApplyFailed, err.Error()})
	}
	return err
}

// pruneWorkspaceAccess deletes the Roles and RoleBindings that belong to the owner and are not
// wanted in the given namespaces. It leaves the namespaces in keep as they are. The owner's labels select
// the candidates, and the claim decides.
func (t *Toolkit) pruneWorkspaceAccess(ctx context.Context, p *Pass, reader client.Reader, namespaces, keep []string) error {
	wanted := map[string]bool{}
	for _, namespace := range namespaces {
		wanted[namespace+"/Role/"+resources.WorkspaceRoleName(p.Workload, namespace)] = true
		wanted[namespace+"/RoleBinding/"+resources.WorkspaceRoleBindingName(p.Workload, namespace)] = true
	}
	selector := client.MatchingLabels(p.Workload.Rights.OwnerLabels)
	watched := t.Namespaces
	if len(watched) == 0 {
		watched = []string{metav1.NamespaceAll}
	}
	var failed error
	for _, kind := range []client.Object{&rbacv1.RoleBinding{}, &rbacv1.Role{}} {
		for _, namespace := range watched {
			found, err := t.list(ctx, reader, kind, selector, client.InNamespace(namespace))
			for _, obj := range found {
				if !wanted[obj.GetNamespace()+"/"+t.childName(obj)] && !slices.Contains(keep, obj.GetNamespace()) && t.ownsGrant(p, obj) {
					err = errors.Join(err, t.pruneOne(ctx, obj))
				}
			}
			if !t.leavesGrants(p, namespace, err) {
				failed = errors.Join(failed, err)
			}
		}
	}
	return failed
}

// leavesGrants reports whether a deletion continues although the permissions in a namespace could
// not be revoked, and records an Event.
func (t *Toolkit) leavesGrants(p *Pass, namespace string, err error) bool {
	if !p.Deleting() || !apierrors.IsForbidden(err) || p.DeletionTimeLeft(DeletionLimit) > 0 ||
		namespace == metav1.NamespaceAll || namespace == p.Workload.Namespace {
		return false
	}
	t.Tell(p, corev1.EventTypeWarning, coderv1alpha1.ReasonGrantsLeftBehind, fmt.Sprintf(
		"the permissions for workspaces in namespace %q were not revoked; if the namespace still exists, delete the Roles and RoleBindings with the labels %q there: %v",
		namespace, labels.FormatLabels(p.Workload.Rights.OwnerLabels), err))
	return true
}

func (t *Toolkit) pruneOne(ctx context.Context, obj client.Object) error {
	err := t.Client.Delete(ctx, obj, client.Preconditions{UID: ptr.To(obj.GetUID())})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %s %q in namespace %q: %w", t.kindOf(obj), obj.GetName(), obj.GetNamespace(), err)
	}
	t.Applier.Forget(obj)
	return nil
}

// ownsGrant reports whether a Role or RoleBinding belongs to the owner. One that was only handed over
// is not its own until it is adopted.
func (t *Toolkit) ownsGrant(p *Pass, obj client.Object) bool {
	if obj.GetNamespace() == p.Workload.Namespace {
		return metav1.IsControlledBy(obj, p.Object)
	}
	return t.grantClaim(p, obj.GetNamespace()).Holds(obj)
}
