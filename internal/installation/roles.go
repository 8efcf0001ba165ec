package installation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/charts"
)

// need contains single permissions in one namespace, each with one verb, and one resource or path.
// An empty namespace means all namespaces.
type need struct {
	namespace string
	rules     []rbacv1.PolicyRule
	// do is the next step if permissions are missing.
	do string
}

// single returns one permission for a resource. name limits it to one object; empty means all.
func single(verb, group, resource, name string) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
	if name != "" {
		rule.ResourceNames = []string{name}
	}
	return rule
}

func singles(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, rule := range rules {
		all = append(all, validation.BreakdownRule(rule)...)
	}
	return all
}

// what returns the path or the resource of a single permission in the format of kubectl.
func what(single rbacv1.PolicyRule) string {
	if len(single.NonResourceURLs) > 0 {
		return single.NonResourceURLs[0]
	}
	resource := strings.TrimSuffix(single.Resources[0]+"."+single.APIGroups[0], ".")
	return strings.Join(append([]string{resource}, single.ResourceNames...), " ")
}

// The paths of the generated roles.
const (
	controllerRoles = "coder-k8s/files/roles/controller.yaml"
	apiserverRoles  = "coder-k8s/files/roles/apiserver.yaml"
	mcpRoles        = "coder-k8s/files/roles/mcp.yaml"
)

// generatedRoles returns the roles in a file of the chart. Roles are read as ClusterRoles, because
// they have the same rules.
func generatedRoles(path string) []rbacv1.ClusterRole {
	raw, err := charts.Roles.ReadFile(path)
	if err != nil {
		panic(fmt.Sprintf("bug: reading the generated roles: %v", err))
	}
	var roles []rbacv1.ClusterRole
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		role := rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			panic(fmt.Sprintf("bug: reading the generated roles in %s: %v", path, err))
		}
		roles = append(roles, role)
	}
	return roles
}

// inNoNamespace returns the resources of the generated roles that a RoleBinding cannot
// grant. It contains resourcequotas, because admission watches them in all namespaces.
func inNoNamespace() sets.Set[string] {
	return sets.New("namespaces", "resourcequotas", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"validatingwebhookconfigurations", "apiservices", "flowschemas", "prioritylevelconfigurations", "flowschemas/status",
		"codermirrorstates", "codertemplaterecords", "codertemplatesources", "coderuserrecords", "coderworkspacerecords")
}

// sentence lists permissions, for example "secrets (get, list), pods (get)". Resources and
// verbs are sorted alphabetically.
func sentence(rules []rbacv1.PolicyRule) string {
	verbs := map[string][]string{}
	for _, rule := range rules {
		verbs[what(rule)] = append(verbs[what(rule)], rule.Verbs...)
	}
	var parts []string
	for _, resource := range slices.Sorted(maps.Keys(verbs)) {
		list := slices.Compact(slices.Sorted(slices.Values(verbs[resource])))
		parts = append(parts, fmt.Sprintf("%s (%s)", resource, strings.Join(list, ", ")))
	}
	return strings.Join(parts, ", ")
}

// roles checks the ClusterRoles of the expected parts: whether they exist, grant what this
// version needs, and are bound.
func (c *checker) roles(ctx context.Context) ([]Problem, error) {
	var problems []Problem
	for _, part := range parts(c.want) {
		if !part.wanted {
			continue
		}
		problem, err := c.role(ctx, generatedRoles(part.roles)[0])
		if err != nil {
			return problems, err
		}
		if problem != nil {
			problems = append(problems, *problem)
		}
	}
	return problems, nil
}

func (c *checker) role(ctx context.Context, generated rbacv1.ClusterRole) (*Problem, error) {
	object := "ClusterRole " + generated.Name
	found := &rbacv1.ClusterRole{}
	err := c.kube.Get(ctx, client.ObjectKey{Name: generated.Name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return &Problem{Object: object, What: "is missing", Do: applyInstallation}, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", object, err)
	}
	if covered, missing := validation.Covers(found.Rules, generated.Rules); !covered {
		return &Problem{Object: object, What: "lacks permissions that this version needs: " + sentence(missing), Do: applyInstallation}, nil
	}
	bound, err := c.bound(ctx, generated.Name)
	if err != nil || bound {
		return nil, err
	}
	return &Problem{Object: object, What: "has no binding", Do: applyInstallation}, nil
}

// bound reports whether any binding with subjects references a ClusterRole.
func (c *checker) bound(ctx context.Context, role string) (bool, error) {
	wide := &rbacv1.ClusterRoleBindingList{}
	if err := c.kube.List(ctx, wide); err != nil {
		return false, fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	if slices.ContainsFunc(wide.Items, func(b rbacv1.ClusterRoleBinding) bool { return gives(b.RoleRef, role, b.Subjects) }) {
		return true, nil
	}
	narrow := &rbacv1.RoleBindingList{}
	if err := c.kube.List(ctx, narrow); err != nil {
		return false, fmt.Errorf("listing RoleBindings: %w", err)
	}
	return slices.ContainsFunc(narrow.Items, func(b rbacv1.RoleBinding) bool { return gives(b.RoleRef, role, b.Subjects) }), nil
}

func gives(ref rbacv1.RoleRef, role string, subjects []rbacv1.Subject) bool {
	return ref.Kind == "ClusterRole" && ref.Name == role && len(subjects) > 0
}
