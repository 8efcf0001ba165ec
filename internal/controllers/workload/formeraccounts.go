package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
)

// FindFormerAccounts looks for ServiceAccounts that the spec named earlier and that pods still use.
// A pod that is being deleted is one of them: a provisioner finishes its job first. These accounts and
// their permissions stay. No watch reports the end of a pod, so the step asks for another pass.
func (t *Toolkit) FindFormerAccounts(ctx context.Context, p *Pass) error {
	candidates, err := t.accounts(ctx, p)
	if err != nil {
		return err
	}
	delete(candidates, p.Workload.ServiceAccountName)
	if len(candidates) == 0 {
		return nil
	}
	pods, err := t.RunningPods(ctx, p)
	if err != nil {
		return fmt.Errorf("looking for the ServiceAccounts that the spec named before: %w", err)
	}
	used := map[string]bool{}
	for i := range pods {
		used[pods[i].Spec.ServiceAccountName] = true
	}
	// A Deployment without pods may still create some, if this pass cannot update it.
	if live := p.Workload.Live; live != nil {
		used[live.Spec.ServiceAccountName] = true
	}
	maps.DeleteFunc(candidates, func(name string, _ bool) bool { return !used[name] })
	p.Workload.FormerAccounts = slices.Sorted(maps.Keys(candidates))
	if len(candidates) > 0 {
		p.Outcome.RequeueAfter = ensure.Sooner(p.Outcome.RequeueAfter, PollInterval)
	}
	return nil
}

// accounts returns the ServiceAccounts that the operator created for the object, and those to which it
// granted the permissions for workspaces.
func (t *Toolkit) accounts(ctx context.Context, p *Pass) (map[string]bool, error) {
	names := map[string]bool{}
	created, err := t.owned(ctx, p, t.Client, &corev1.ServiceAccount{}, client.MatchingLabels(p.Workload.Labels))
	if err != nil {
		return nil, err
	}
	for _, account := range created {
		names[account.GetName()] = true
	}
	if p.Workload.Rights == nil {
		return names, nil
	}
	bindings, err := t.list(ctx, t.Client, &rbacv1.RoleBinding{}, client.MatchingLabels(p.Workload.Rights.OwnerLabels))
	if err != nil {
		return nil, err
	}
	for _, binding := range bindings {
		if !t.ownsGrant(p, binding) {
			continue
		}
		for _, subject := range binding.(*rbacv1.RoleBinding).Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == p.Workload.Namespace {
				names[subject.Name] = true
			}
		}
	}
	return names, nil
}
