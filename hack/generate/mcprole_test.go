package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func allows(role rbacv1.ClusterRole, group, resource, verb string) bool {
	return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		if strings.HasPrefix(resource, "/") {
			return slices.Contains(r.NonResourceURLs, resource) && slices.Contains(r.Verbs, verb)
		}
		return slices.Contains(r.APIGroups, group) && slices.Contains(r.Resources, resource) && slices.Contains(r.Verbs, verb)
	})
}

func TestTheRoleHasEachRightOfACallerInBothModes(t *testing.T) {
	role := clusterRole()
	for _, right := range callersRights() {
		for _, mode := range []string{"user-info", "serviceaccount"} {
			if verb := "impersonate-on:" + mode + ":" + right.Verb; !allows(role, right.Group, right.Resource, verb) {
				t.Errorf("the role lacks %s on %s of group %q", verb, right.Resource, right.Group)
			}
		}
	}
	for resource, verb := range map[string]string{"users": "impersonate:user-info", "groups": "impersonate:user-info", "serviceaccounts": "impersonate:serviceaccount"} {
		if !allows(role, "authentication.k8s.io", resource, verb) {
			t.Errorf("the role lacks %s on %s", verb, resource)
		}
	}
}

// An attacker who controls the server must not get more permissions than its tools use, and none
// without impersonation.
func TestTheRoleReachesNoFurther(t *testing.T) {
	for _, rule := range clusterRole().Rules {
		if len(rule.NonResourceURLs) > 0 {
			// Paths that every authenticated caller may read.
			want := rbacv1.PolicyRule{
				NonResourceURLs: []string{"/apis/aggregation.coder.com/v1alpha1", "/version"},
				Verbs:           []string{"impersonate-on:serviceaccount:get", "impersonate-on:user-info:get"},
			}
			if diff := cmp.Diff(want, rule); diff != "" {
				t.Errorf("the rule about paths (-want +got):\n%s", diff)
			}
			continue
		}
		if len(rule.ResourceNames) > 0 || len(rule.APIGroups) != 1 || len(rule.Resources) == 0 {
			t.Errorf("a rule has another form: %+v", rule)
		}
		for _, resource := range rule.Resources {
			if resource == "" || strings.Contains(resource, "*") || strings.HasPrefix(resource, "secrets") || resource == "pods/exec" {
				t.Errorf("a rule is about %q", resource)
			}
			for _, verb := range rule.Verbs {
				constrained := strings.HasPrefix(verb, "impersonate-on:") || strings.HasPrefix(verb, "impersonate:") && rule.APIGroups[0] == "authentication.k8s.io"
				if !constrained || strings.Contains(verb, "*") {
					t.Errorf("a rule allows %s on %s", verb, resource)
				}
			}
		}
	}
}

// Without the toolset the server cannot run commands on behalf of callers.
func TestOnlyTheRoleOfToolsetInsideRunsCommands(t *testing.T) {
	const group, exec = "aggregation.coder.com", "coderworkspaces/exec"
	want := []rbacv1.PolicyRule{{
		APIGroups: []string{group}, Resources: []string{exec},
		Verbs: []string{"impersonate-on:serviceaccount:create", "impersonate-on:serviceaccount:get", "impersonate-on:user-info:create", "impersonate-on:user-info:get"},
	}}
	if diff := cmp.Diff(want, insideRole().Rules); diff != "" {
		t.Errorf("the role of toolset inside (-want +got):\n%s", diff)
	}
	for _, verb := range want[0].Verbs {
		if allows(clusterRole(), group, exec, verb) {
			t.Errorf("the usual role allows %s on %s", verb, exec)
		}
	}
}

func TestRulesAreTheSameWhateverTheOrder(t *testing.T) {
	one, other := verbsOf{}, verbsOf{}
	one.add("g", "b", "list")
	one.add("g", "a", "get")
	one.add("g", "a", "list")
	one.add("g", "b", "get")
	one.add("g", "b", "get")
	other.add("g", "b", "get")
	other.add("g", "a", "list")
	other.add("g", "b", "list")
	other.add("g", "a", "get")
	for _, rules := range [][]rbacv1.PolicyRule{one.rules(), other.rules()} {
		if len(rules) != 1 || !slices.Equal(rules[0].Resources, []string{"a", "b"}) || !slices.Equal(rules[0].Verbs, []string{"get", "list"}) {
			t.Errorf("the rules are %+v", rules)
		}
	}
}
