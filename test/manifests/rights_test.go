package manifests

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

func difference(want, got string) string {
	return cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
}

// metricsReader is the ServiceAccount as which Prometheus reads the metrics.
const metricsReader = "coder-k8s-metrics-reader"

// rights are the permissions of the ServiceAccounts, one per line: scope, resource,
// verbs.
type rights map[string][]string

// rightsOf resolves each binding to the rules of its role. For roles of Kubernetes
// itself it uses the name.
func rightsOf(t *testing.T, objects rendering) rights {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, role := range ofKind[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		rules["ClusterRole "+role.Name] = role.Rules
	}
	for _, role := range ofKind[rbacv1.Role](t, objects, "Role") {
		rules["Role "+role.Name] = role.Rules
	}
	found := rights{}
	add := func(scope string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		granted, ours := rules[ref.Kind+" "+ref.Name]
		lines := []string{scope + " | all of " + ref.Name}
		if ours {
			lines = linesOf(scope, granted)
		} else if strings.HasPrefix(ref.Name, program) {
			t.Errorf("%s %s is bound and not part of the installation", ref.Kind, ref.Name)
		}
		for _, subject := range subjects {
			if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != operatorNamespace {
				t.Errorf("%s is bound to %s %s/%s, which is not of the operator", ref.Name, subject.Kind, subject.Namespace, subject.Name)
			}
			found[subject.Name] = append(found[subject.Name], lines...)
		}
	}
	for _, binding := range ofKind[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding") {
		add("everywhere", binding.RoleRef, binding.Subjects)
	}
	for _, binding := range ofKind[rbacv1.RoleBinding](t, objects, "RoleBinding") {
		add("in "+binding.Namespace, binding.RoleRef, binding.Subjects)
	}
	for account := range found {
		slices.Sort(found[account])
		found[account] = slices.Compact(found[account])
	}
	return found
}

// linesOf returns a line for each resource of the rules.
func linesOf(scope string, granted []rbacv1.PolicyRule) []string {
	var lines []string
	for _, rule := range granted {
		verbs := slices.Sorted(slices.Values(rule.Verbs))
		named := ""
		if len(rule.ResourceNames) > 0 {
			named = " named " + strings.Join(rule.ResourceNames, ", ")
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				what := strings.TrimSuffix(resource+"."+group, ".")
				lines = append(lines, fmt.Sprintf("%s | %s%s | %s", scope, what, named, strings.Join(verbs, " ")))
			}
		}
		for _, path := range rule.NonResourceURLs {
			lines = append(lines, fmt.Sprintf("%s | %s | %s", scope, path, strings.Join(verbs, " ")))
		}
	}
	return lines
}

// TestRights checks that each ServiceAccount has the permissions in its golden
// file, and no other account has any.
func TestRights(t *testing.T) {
	eachInstallation(t, func(t *testing.T, name string, objects rendering) {
		base := map[string]string{
			"ha": "default", "network-policies": "default", "cert-manager": "default",
			"split-ha": "split", "everything": "split", "namespaced-closed": "namespaced",
			"private": "default", "port-10250": "default", "host-network": "split",
		}
		file := name
		if same, ok := base[name]; ok {
			// Additions to an installation must not grant further permissions.
			file = same
		}
		var text strings.Builder
		found := rightsOf(t, objects)
		for _, account := range slices.Sorted(maps.Keys(found)) {
			fmt.Fprintf(&text, "%s\n", account)
			for _, line := range found[account] {
				fmt.Fprintf(&text, "  %s\n", line)
			}
		}
		golden(t, filepath.Join("testdata", "rights", file+".txt"), text.String())
	})
}

// TestRightsOfPeople compares the permissions of the user roles with a golden file.
// test/admission tests their aggregation to the built-in roles.
func TestRightsOfPeople(t *testing.T) {
	var text strings.Builder
	for _, role := range ofKind[rbacv1.ClusterRole](t, environment.installations["default"], "ClusterRole") {
		if slices.Contains([]string{
			"coder-k8s-view", "coder-k8s-edit", "coder-k8s-admin", "coder-k8s-workspace-orphaner", "coder-k8s-owner-impersonator", "coder-k8s-workspace-access", "coder-k8s-workspace-tokens", "coder-k8s-mcp-user", "coder-k8s-metrics-reader",
		}, role.Name) {
			fmt.Fprintf(&text, "%s\n", role.Name)
			for _, line := range slices.Sorted(slices.Values(linesOf("where it is bound", role.Rules))) {
				fmt.Fprintf(&text, "  %s\n", line)
			}
		}
	}
	golden(t, filepath.Join("testdata", "rights", "people.txt"), text.String())
}

// TestSplitIsTheSameInParts checks that the three accounts together have exactly
// the permissions of the one of the all-in-one installation.
func TestSplitIsTheSameInParts(t *testing.T) {
	one := rightsOf(t, environment.installations["default"])
	parts := rightsOf(t, environment.installations["split"])
	var together []string
	for _, lines := range parts {
		together = append(together, lines...)
	}
	slices.Sort(together)
	if diff := cmp.Diff(one[program], slices.Compact(together)); diff != "" {
		t.Error(diff)
	}
	if len(one) != 1 || len(parts) != 3 {
		t.Errorf("there are %d and %d accounts, not 1 and 3", len(one), len(parts))
	}
}

// TestWhoMayWhat checks the purpose of a split installation: each dangerous
// permission is granted to one component only.
func TestWhoMayWhat(t *testing.T) {
	const controller, apiserver, mcp = "coder-k8s-controller", "coder-k8s-apiserver", "coder-k8s-mcp"
	found := rightsOf(t, environment.installations["split"])
	for _, test := range []struct {
		what string
		has  func(line string) bool
		who  []string
	}{
		{"list all Secrets", func(l string) bool {
			return strings.HasPrefix(l, "everywhere | secrets |") && strings.Contains(l, "list")
		}, []string{controller}},
		{"read any Secret by its name", func(l string) bool {
			return strings.HasPrefix(l, "everywhere | secrets |") && strings.Contains(l, "get")
		}, []string{apiserver, controller}},
		{"write Secrets everywhere", func(l string) bool {
			return strings.HasPrefix(l, "everywhere | secrets |") && strings.Contains(l, "create")
		}, []string{controller}},
		{"act as a caller", func(l string) bool { return strings.Contains(l, "impersonate") }, []string{mcp}},
		{"act as anybody", func(l string) bool { return strings.HasSuffix(" "+l, " impersonate") }, nil},
		{"bind roles", func(l string) bool { return strings.Contains(l, "rolebindings") }, []string{controller}},
		{"run pods", func(l string) bool {
			return strings.Contains(l, "| pods |") && strings.Contains(l, " create ")
		}, []string{controller}},
		{"elect a leader", func(l string) bool { return strings.Contains(l, "leases.coordination") }, []string{apiserver, controller}},
		{"change the APIService", func(l string) bool { return strings.Contains(l, "apiservices") }, []string{apiserver}},
		{"review tokens", func(l string) bool { return strings.Contains(l, "system:auth-delegator") }, []string{apiserver, controller, mcp}},
		{"read whom kube-apiserver trusts", func(l string) bool { return strings.Contains(l, "authentication-reader") }, []string{apiserver}},
		{"do anything", func(l string) bool { return strings.Contains(l, "*") }, nil},
		{"give itself rights", func(l string) bool { return strings.Contains(l, "escalate") || strings.Contains(l, " bind") }, nil},
	} {
		var who []string
		for _, account := range slices.Sorted(maps.Keys(found)) {
			if slices.ContainsFunc(found[account], test.has) {
				who = append(who, account)
			}
		}
		if diff := cmp.Diff(test.who, who); diff != "" {
			t.Errorf("%s: %s", test.what, diff)
		}
	}
}

// TestEveryAccountIsUsed checks that each ServiceAccount belongs to a Deployment
// and vice versa.
func TestEveryAccountIsUsed(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, objects rendering) {
		var accounts []string
		for _, object := range objects {
			// Prometheus uses its account, and TestRights checks that it may only read the metrics.
			if object.GetKind() == "ServiceAccount" && object.GetName() != metricsReader {
				accounts = append(accounts, object.GetName())
			}
		}
		var used []string
		for _, deployment := range deployments(t, objects) {
			used = append(used, deployment.Spec.Template.Spec.ServiceAccountName)
		}
		slices.Sort(accounts)
		slices.Sort(used)
		having := slices.DeleteFunc(slices.Sorted(maps.Keys(rightsOf(t, objects))), func(account string) bool { return account == metricsReader })
		if diff := cmp.Diff(accounts, used); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(accounts, having); diff != "" {
			t.Errorf("accounts and those with rights: %s", diff)
		}
	})
}

// TestWithoutMCP checks that an installation without the MCP server has none of its objects and none of its permissions.
func TestWithoutMCP(t *testing.T) {
	for _, mode := range []string{"default", "split"} {
		objects, err := kubetest.Installation(t.Context(), mode, "testdata/values/without-mcp.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			// The role is for people.
			if strings.HasPrefix(object.GetName(), "coder-k8s-mcp") && object.GetName() != "coder-k8s-mcp-user" {
				t.Errorf("%s: there is %s", mode, describe(object))
			}
		}
		for account, lines := range rightsOf(t, objects) {
			for _, line := range lines {
				if account == "coder-k8s-mcp" || strings.Contains(line, "impersonate") {
					t.Errorf("%s: %s may %s", mode, account, line)
				}
			}
		}
	}
}
