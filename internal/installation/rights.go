package installation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/charts"
)

const (
	// applyInstallation is the remedy if an object of the installation is missing or old.
	applyInstallation = "apply the manifests of this version (kubectl apply -f install.yaml, or your variant of it), or upgrade the Helm release"
	// nowhere is the name of a namespace that nobody uses. Permissions in it are
	// permissions in all namespaces.
	nowhere = "coder-k8s-nowhere"
	// allNamed is the maximum number of missing permissions that are listed if all are
	// missing.
	allNamed = 12
)

// rights returns the permissions that the expected parts need and the caller lacks. If the
// caller is not the operator, it checks the roles instead.
func (c *checker) rights(ctx context.Context) ([]Problem, error) {
	if !c.want.OwnRights {
		return c.roles(ctx)
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.kube.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("asking kube-apiserver who we are: %w", err)
	}
	who := "User " + review.Status.UserInfo.Username
	if account, is := strings.CutPrefix(who, "User system:serviceaccount:"); is {
		who = "ServiceAccount " + strings.Replace(account, ":", "/", 1)
	}
	var problems []Problem
	for _, n := range needsOf(c.want) {
		missing, err := c.missing(ctx, n)
		if err != nil {
			return problems, err
		}
		if len(missing) > 0 {
			problems = append(problems, Problem{Object: who, What: mayNot(missing, n), Do: n.do})
		}
	}
	return problems, nil
}

func mayNot(missing []rbacv1.PolicyRule, n need) string {
	where := ""
	if n.namespace != "" {
		where = " in namespace " + n.namespace
	}
	if len(missing) == len(n.rules) && len(missing) > allNamed {
		return fmt.Sprintf("has none of the %d permissions that it needs%s, such as %s", len(missing), where, sentence(missing[:1]))
	}
	return fmt.Sprintf("lacks permissions that it needs%s: %s", where, sentence(missing))
}

// missing returns the permissions that the caller lacks. It requests the caller's rules
// once. Permissions that are not in the rules are checked individually, because other
// authorizers than RBAC may not list their rules.
func (c *checker) missing(ctx context.Context, n need) ([]rbacv1.PolicyRule, error) {
	namespace := cmp.Or(n.namespace, nowhere)
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := c.kube.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("asking kube-apiserver for our rights in namespace %s: %w", namespace, err)
	}
	var rules []rbacv1.PolicyRule
	for _, rule := range review.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
		})
	}
	for _, rule := range review.Status.NonResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
	}
	_, unlisted := validation.Covers(rules, n.rules)
	var missing []rbacv1.PolicyRule
	for _, rule := range unlisted {
		ok, err := allowed(ctx, c.kube, n.namespace, rule)
		if err != nil {
			return nil, err
		}
		if !ok {
			missing = append(missing, rule)
		}
	}
	return missing, nil
}

func allowed(ctx context.Context, kube client.Writer, namespace string, rule rbacv1.PolicyRule) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{}
	if len(rule.NonResourceURLs) > 0 {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0], Verb: rule.Verbs[0]}
	} else {
		resource, sub, _ := strings.Cut(rule.Resources[0], "/")
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: sub,
			Name: strings.Join(rule.ResourceNames, ""),
		}
	}
	if err := kube.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking kube-apiserver whether we may %s %s: %w", rule.Verbs[0], what(rule), err)
	}
	return review.Status.Allowed, nil
}

// needsOf returns all permissions of the expected parts, by namespace.
func needsOf(want Expectation) []need {
	// The resources of the generated roles that a RoleBinding cannot grant. Admission watches resourcequotas in
	// all namespaces.
	clusterWide := []string{
		"namespaces", "resourcequotas", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
		"mutatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"validatingwebhookconfigurations", "apiservices", "flowschemas", "prioritylevelconfigurations", "flowschemas/status",
		"codermirrorstates", "codertemplaterecords", "codertemplatesources", "coderuserrecords", "coderworkspacerecords",
	}
	var needs []need
	add := func(namespace, do string, rules ...rbacv1.PolicyRule) {
		if len(rules) > 0 {
			needs = append(needs, need{namespace: namespace, rules: rules, do: do})
		}
	}
	if want.Controllers {
		role := generatedRoles(controllerRoles)[0]
		for _, namespace := range watched(want) {
			add(namespace, bindRole(namespace, role.Name), singles(role.Rules)...)
		}
		if !want.NoLeaderElection {
			add(cmp.Or(want.LeaseNamespace, want.Namespace), applyInstallation, lease(leaseName)...)
		}
	}
	if want.AggregatedAPI {
		for _, role := range generatedRoles(apiserverRoles) {
			if role.Kind == "Role" {
				add(want.Namespace, applyInstallation, singles(role.Rules)...)
				continue
			}
			var inCluster, namespaced []rbacv1.PolicyRule
			for _, rule := range singles(role.Rules) {
				if len(rule.Resources) > 0 && slices.Contains(clusterWide, rule.Resources[0]) {
					inCluster = append(inCluster, rule)
				} else {
					namespaced = append(namespaced, rule)
				}
			}
			add("", applyInstallation, inCluster...)
			for _, namespace := range watched(want) {
				add(namespace, bindRole(namespace, role.Name), namespaced...)
			}
		}
		add(want.Namespace, applyInstallation, lease(apiServerLeaseName)...)
		add(metav1.NamespaceSystem, applyInstallation, single("get", "", "configmaps", "extension-apiserver-authentication"))
	}
	if want.MCP {
		role := generatedRoles(mcpRoles)[0]
		add("", bindRole("", role.Name), singles(role.Rules)...)
	}
	add("", applyInstallation,
		single("create", "authentication.k8s.io", "tokenreviews", ""),
		single("create", "authorization.k8s.io", "subjectaccessreviews", ""))
	return needs
}

func lease(name string) []rbacv1.PolicyRule {
	const group, resource = "coordination.k8s.io", "leases"
	return []rbacv1.PolicyRule{single("create", group, resource, ""), single("get", group, resource, name), single("update", group, resource, name)}
}

// watched returns the namespaces that the operator works in; one empty name means all.
func watched(want Expectation) []string {
	if len(want.WatchNamespaces) == 0 {
		return []string{""}
	}
	return want.WatchNamespaces
}

func bindRole(namespace, role string) string {
	if namespace == "" {
		return applyInstallation
	}
	return fmt.Sprintf("%s, with namespace %s in watchNamespaces: they bind ClusterRole %s there (docs/how-to/watch-some-namespaces.md)", applyInstallation, namespace, role)
}

// ChildResources returns the resources of which the operator creates objects for its custom
// resources. The list is complete, because it is derived from the generated role that
// limits the operator. The custom resources themselves it creates only in dry runs.
func ChildResources() []schema.GroupResource {
	var found []schema.GroupResource
	for _, rule := range singles(generatedRoles(controllerRoles)[0].Rules) {
		if rule.Verbs[0] == "create" && rule.Resources[0] != "events" && rule.APIGroups[0] != coderv1alpha1.GroupVersion.Group {
			found = append(found, schema.GroupResource{Group: rule.APIGroups[0], Resource: rule.Resources[0]})
		}
	}
	slices.SortFunc(found, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return found
}

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
	binds := func(ref rbacv1.RoleRef, subjects []rbacv1.Subject) bool {
		return ref.Kind == "ClusterRole" && ref.Name == generated.Name && len(subjects) > 0
	}
	wide := &rbacv1.ClusterRoleBindingList{}
	if err := c.kube.List(ctx, wide); err != nil {
		return nil, fmt.Errorf("listing ClusterRoleBindings: %w", err)
	}
	if slices.ContainsFunc(wide.Items, func(b rbacv1.ClusterRoleBinding) bool { return binds(b.RoleRef, b.Subjects) }) {
		return nil, nil
	}
	narrow := &rbacv1.RoleBindingList{}
	if err := c.kube.List(ctx, narrow); err != nil {
		return nil, fmt.Errorf("listing RoleBindings: %w", err)
	}
	if slices.ContainsFunc(narrow.Items, func(b rbacv1.RoleBinding) bool { return binds(b.RoleRef, b.Subjects) }) {
		return nil, nil
	}
	return &Problem{Object: object, What: "has no binding", Do: applyInstallation}, nil
}
