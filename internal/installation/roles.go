package installation

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// roles checks the ClusterRoles of the expected parts: whether they exist, grant what this
// version needs, and are bound.
func (c *checker) roles(ctx context.Context) ([]Problem, error) {
	var problems []Problem
	for _, part := range []struct {
		path   string
		wanted bool
	}{{controllerRoles, c.want.Controllers}, {apiserverRoles, c.want.AggregatedAPI}, {mcpRoles, c.want.MCP}} {
		if !part.wanted {
			continue
		}
		roles, err := generatedRoles(part.path)
		if err != nil {
			return problems, err
		}
		problem, err := c.role(ctx, roles[0])
		if err != nil {
			return problems, err
		}
		if problem != nil {
			problems = append(problems, *problem)
		}
	}
	return problems, nil
}

// role checks one ClusterRole.
func (c *checker) role(ctx context.Context, generated rbacv1.ClusterRole) (*Problem, error) {
	object := "ClusterRole " + generated.Name
	found := &rbacv1.ClusterRole{}
	err := c.kube.Get(ctx, client.ObjectKey{Name: generated.Name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return &Problem{Object: object, What: "is missing", Do: applyRBAC}, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", object, err)
	}
	var missing []right
	for _, r := range rightsOf(generated.Rules) {
		if !covered(r, found.Rules) {
			missing = append(missing, r)
		}
	}
	if len(missing) > 0 {
		return &Problem{Object: object, What: "lacks rights that this version needs: " + sentence(missing), Do: applyRBAC}, nil
	}
	bound, err := c.bound(ctx, generated.Name)
	if err != nil || bound {
		return nil, err
	}
	return &Problem{Object: object, What: "is bound to nobody", Do: applyRBAC}, nil
}

// bound reports whether any binding with subjects references a ClusterRole.
func (c *checker) bound(ctx context.Context, role string) (bool, error) {
	wide := &rbacv1.ClusterRoleBindingList{}
	if err := c.kube.List(ctx, wide); err != nil {
		return false, fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	for _, binding := range wide.Items {
		if gives(binding.RoleRef, role, binding.Subjects) {
			return true, nil
		}
	}
	narrow := &rbacv1.RoleBindingList{}
	if err := c.kube.List(ctx, narrow); err != nil {
		return false, fmt.Errorf("listing RoleBindings: %w", err)
	}
	for _, binding := range narrow.Items {
		if gives(binding.RoleRef, role, binding.Subjects) {
			return true, nil
		}
	}
	return false, nil
}

func gives(ref rbacv1.RoleRef, role string, subjects []rbacv1.Subject) bool {
	return ref.Kind == "ClusterRole" && ref.Name == role && len(subjects) > 0
}
