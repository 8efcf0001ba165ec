package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/config"
)

// right is a permission that a part needs.
type right struct {
	verb string
	// path is a non-resource URL; if it is set, the fields below are empty.
	path            string
	group, resource string
	// name limits the permission to one object; empty means all objects.
	name string
}

// need contains permissions in one namespace; an empty namespace means all namespaces.
type need struct {
	namespace string
	rights    []right
	// do is the next step if permissions are missing.
	do string
}

// what returns the resource of a permission in the format of kubectl.
func (r right) what() string {
	if r.path != "" {
		return r.path
	}
	out := r.resource
	if r.group != "" {
		out += "." + r.group
	}
	if r.name != "" {
		out += " " + r.name
	}
	return out
}

// The paths of the generated roles.
const (
	controllerRoles = "rbac/controller/role.yaml"
	apiserverRoles  = "rbac/apiserver/role.yaml"
	mcpRoles        = "rbac/mcp/role.yaml"
)

// generatedRoles reads a file of roles. Roles are read as ClusterRoles, because they have
// the same rules.
func generatedRoles(path string) ([]rbacv1.ClusterRole, error) {
	raw, err := config.Roles.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the generated roles: %w", err)
	}
	var roles []rbacv1.ClusterRole
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		role := rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			return nil, fmt.Errorf("reading the generated roles in %s: %w", path, err)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

// rightsOf returns the single permissions of rules.
func rightsOf(rules []rbacv1.PolicyRule) []right {
	var rights []right
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				rights = append(rights, right{verb: verb, path: path})
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						rights = append(rights, right{verb: verb, group: group, resource: resource, name: name})
					}
				}
			}
		}
	}
	return rights
}

// inNoNamespace returns the resources of the generated roles that a RoleBinding cannot
// grant. It contains resourcequotas, because admission watches them in all namespaces.
func inNoNamespace() sets.Set[string] {
	return sets.New("namespaces", "resourcequotas", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"validatingwebhookconfigurations", "apiservices", "flowschemas", "prioritylevelconfigurations", "flowschemas/status",
		"codermirrorstates", "coderobjectmetadata", "codertemplaterecords", "codertemplatesources", "coderuserrecords", "coderworkspacerecords")
}

// covered reports whether a rule grants a permission.
func covered(r right, rules []rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		if !has(rule.Verbs, r.verb) {
			return false
		}
		if r.path != "" {
			return slices.ContainsFunc(rule.NonResourceURLs, func(pattern string) bool {
				prefix, wild := strings.CutSuffix(pattern, "*")
				return pattern == r.path || wild && strings.HasPrefix(r.path, prefix)
			})
		}
		_, sub, _ := strings.Cut(r.resource, "/")
		return has(rule.APIGroups, r.group) &&
			(has(rule.Resources, r.resource) || sub != "" && slices.Contains(rule.Resources, "*/"+sub)) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, r.name))
	})
}

func has(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

// sentence lists permissions, for example "secrets (get, list), pods (get)". Resources and
// verbs are sorted alphabetically.
func sentence(rights []right) string {
	verbs := map[string][]string{}
	for _, r := range rights {
		verbs[r.what()] = append(verbs[r.what()], r.verb)
	}
	var parts []string
	for what, list := range verbs {
		slices.Sort(list)
		parts = append(parts, fmt.Sprintf("%s (%s)", what, strings.Join(slices.Compact(list), ", ")))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

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
		return &Problem{Object: object, What: "lacks permissions that this version needs: " + sentence(missing), Do: applyRBAC}, nil
	}
	bound, err := c.bound(ctx, generated.Name)
	if err != nil || bound {
		return nil, err
	}
	return &Problem{Object: object, What: "has no binding", Do: applyRBAC}, nil
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
