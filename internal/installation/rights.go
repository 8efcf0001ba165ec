package installation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	applyRBAC = "apply the roles and bindings of this version: kubectl apply -k config/rbac, or upgrade the Helm release"
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
	needs, err := needsOf(c.want)
	if err != nil {
		return nil, err
	}
	who, err := c.whoAmI(ctx)
	if err != nil {
		return nil, err
	}
	var problems []Problem
	for _, n := range needs {
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

// mayNot describes missing permissions.
func mayNot(missing []right, n need) string {
	where := ""
	if n.namespace != "" {
		where = " in namespace " + n.namespace
	}
	if len(missing) == len(n.rights) && len(missing) > allNamed {
		return fmt.Sprintf("has none of the %d permissions that it needs%s, such as %s", len(missing), where, sentence(missing[:1]))
	}
	return fmt.Sprintf("lacks permissions that it needs%s: %s", where, sentence(missing))
}

// whoAmI returns the name of the caller. A ServiceAccount is returned as "ServiceAccount
// <namespace>/<name>".
func (c *checker) whoAmI(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.kube.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking kube-apiserver who we are: %w", err)
	}
	name := review.Status.UserInfo.Username
	if account, is := strings.CutPrefix(name, "system:serviceaccount:"); is {
		return "ServiceAccount " + strings.Replace(account, ":", "/", 1), nil
	}
	return "User " + name, nil
}

// missing returns the permissions that the caller lacks. It requests the caller's rules
// once. Permissions that are not in the rules are checked individually, because other
// authorizers than RBAC may not list their rules.
func (c *checker) missing(ctx context.Context, n need) ([]right, error) {
	namespace := cmp.Or(n.namespace, nowhere)
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := c.kube.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("asking kube-apiserver for our rights in namespace %s: %w", namespace, err)
	}
	rules := rulesOf(review.Status)
	var missing []right
	for _, r := range n.rights {
		if covered(r, rules) {
			continue
		}
		allowed, err := c.allowed(ctx, n.namespace, r)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

func rulesOf(status authorizationv1.SubjectRulesReviewStatus) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, rule := range status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{
			Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
		})
	}
	for _, rule := range status.NonResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
	}
	return rules
}

// allowed checks a single permission.
func (c *checker) allowed(ctx context.Context, namespace string, r right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{}
	if r.path != "" {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: r.path, Verb: r.verb}
	} else {
		resource, sub, _ := strings.Cut(r.resource, "/")
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: r.verb, Group: r.group, Resource: resource, Subresource: sub, Name: r.name,
		}
	}
	if err := c.kube.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking kube-apiserver whether we may %s %s: %w", r.verb, r.what(), err)
	}
	return review.Status.Allowed, nil
}

// needsOf returns all permissions of the expected parts, by namespace.
func needsOf(want Expectation) ([]need, error) {
	var needs []need
	add := func(namespace, do string, rights ...right) {
		if len(rights) > 0 {
			needs = append(needs, need{namespace: namespace, rights: rights, do: do})
		}
	}
	if want.Controllers {
		roles, err := generatedRoles(controllerRoles)
		if err != nil {
			return nil, err
		}
		for _, namespace := range watched(want) {
			add(namespace, bindRole(namespace, roles[0].Name), rightsOf(roles[0].Rules)...)
		}
		if !want.NoLeaderElection {
			add(cmp.Or(want.LeaseNamespace, want.Namespace), applyRBAC, lease(LeaseName)...)
		}
	}
	if want.AggregatedAPI {
		if err := apiserverNeeds(want, add); err != nil {
			return nil, err
		}
	}
	if want.MCP {
		roles, err := generatedRoles(mcpRoles)
		if err != nil {
			return nil, err
		}
		add("", bindRole("", roles[0].Name), rightsOf(roles[0].Rules)...)
		add(want.Namespace, applyRBAC, right{verb: "create", resource: "secrets"},
			right{verb: "get", resource: "secrets", name: ConfirmationSecret})
	}
	add("", applyRBAC,
		right{verb: "create", group: "authentication.k8s.io", resource: "tokenreviews"},
		right{verb: "create", group: "authorization.k8s.io", resource: "subjectaccessreviews"})
	return needs, nil
}

// apiserverNeeds adds the permissions of the aggregated API, of which some are
// cluster-scoped.
func apiserverNeeds(want Expectation, add func(namespace, do string, rights ...right)) error {
	roles, err := generatedRoles(apiserverRoles)
	if err != nil {
		return err
	}
	for _, role := range roles {
		all := rightsOf(role.Rules)
		if role.Kind == "Role" {
			add(want.Namespace, applyRBAC, all...)
			continue
		}
		clusterWide := inNoNamespace()
		inCluster := func(r right) bool { return clusterWide.Has(r.resource) }
		namespaced := slices.DeleteFunc(slices.Clone(all), inCluster)
		add("", applyRBAC, slices.DeleteFunc(all, func(r right) bool { return !inCluster(r) })...)
		for _, namespace := range watched(want) {
			add(namespace, bindRole(namespace, role.Name), namespaced...)
		}
	}
	add(want.Namespace, applyRBAC, lease(APIServerLeaseName)...)
	add(metav1.NamespaceSystem, applyRBAC, right{verb: "get", resource: "configmaps", name: "extension-apiserver-authentication"})
	return nil
}

// lease returns the permissions for leader election with a Lease.
func lease(name string) []right {
	const group, resource = "coordination.k8s.io", "leases"
	return []right{{verb: "create", group: group, resource: resource},
		{verb: "get", group: group, resource: resource, name: name}, {verb: "update", group: group, resource: resource, name: name}}
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
		return applyRBAC
	}
	return fmt.Sprintf("apply config/rbac, and bind ClusterRole %s in namespace %s as config/namespaced/coder does", role, namespace)
}

// ChildResources returns the resources of which the operator creates objects for its custom
// resources. The list is complete, because it is derived from the generated role that
// limits the operator.
func ChildResources() ([]schema.GroupResource, error) {
	roles, err := generatedRoles(controllerRoles)
	if err != nil {
		return nil, err
	}
	var found []schema.GroupResource
	for _, rule := range roles[0].Rules {
		if !has(rule.Verbs, "create") {
			continue
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if resource != "events" {
					found = append(found, schema.GroupResource{Group: group, Resource: resource})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return found, nil
}

// RoleNames returns the names of the generated ClusterRoles. In older versions, they have
// no label.
func RoleNames() ([]string, error) {
	var names []string
	for _, path := range []string{controllerRoles, apiserverRoles, mcpRoles} {
		roles, err := generatedRoles(path)
		if err != nil {
			return nil, err
		}
		names = append(names, roles[0].Name)
	}
	return names, nil
}
