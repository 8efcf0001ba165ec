package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/prompts"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/tools"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// The modes of impersonation. Service accounts have their own mode, because their groups follow
// from their name.
const (
	asPerson         = "user-info"
	asServiceAccount = "serviceaccount"
)

// writeMCPRole prints the ClusterRole of the MCP server: the permissions to impersonate its callers,
// restricted to the resources and verbs that its tools and prompts use, and the few
// permissions that it uses itself. If inside is true, it prints the additional role for that
// toolset, which an administrator must enable.
//
// The rules use constrained impersonation (Kubernetes 1.36 and later). It requires two permissions:
// one to impersonate a user (impersonate:<mode>) and one for the action
// (impersonate-on:<mode>:<verb>). It never allows impersonating the group system:masters.
func writeMCPRole(out io.Writer, inside bool) error {
	made := clusterRole()
	if inside {
		made = insideRole()
	}
	role, err := yaml.Marshal(made)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "---\n%s", role)
	return err
}

// clusterRole returns the permissions to impersonate callers. The permissions that the server uses
// itself are defined elsewhere: token and access reviews in system:auth-delegator, and the Secret of
// its replicas in mcprbac.yaml of the Helm chart.
func clusterRole() rbacv1.ClusterRole {
	const authentication = "authentication.k8s.io"
	verbs := verbsOf{}
	verbs.add(authentication, "users", "impersonate:"+asPerson)
	verbs.add(authentication, "groups", "impersonate:"+asPerson)
	verbs.add(authentication, "serviceaccounts", "impersonate:"+asServiceAccount)
	verbs.actOn(callersRights())
	return verbs.role("coder-k8s-mcp")
}

// insideRole returns the permissions that toolset inside needs in addition to clusterRole.
func insideRole() rbacv1.ClusterRole {
	verbs := verbsOf{}
	usual := callersRights()
	verbs.actOn(slices.DeleteFunc(toolRights(true), func(right callers.Right) bool { return slices.Contains(usual, right) }))
	return verbs.role("coder-k8s-mcp-inside")
}

// callersRights returns the permissions that are used on behalf of callers without toolset inside.
func callersRights() []callers.Right {
	return slices.Concat(prompts.Rights(), toolRights(false))
}

// toolRights returns the permissions for the tools of toolset inside, or for all other tools.
func toolRights(inside bool) []callers.Right {
	var rights []callers.Right
	for _, definition := range tools.All().Definitions() {
		if (definition.Toolset == toolset.Inside) == inside {
			rights = append(rights, definition.AllRights()...)
		}
	}
	return rights
}

type groupResource struct{ group, resource string }

// verbsOf contains the verbs for each resource.
type verbsOf map[groupResource][]string

// actOn adds the verbs to use permissions on behalf of callers.
func (v verbsOf) actOn(rights []callers.Right) {
	for _, right := range rights {
		for _, mode := range []string{asPerson, asServiceAccount} {
			v.add(right.Group, right.Resource, "impersonate-on:"+mode+":"+right.Verb)
		}
	}
}

func (v verbsOf) role(name string) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      v.rules(),
	}
}

func (v verbsOf) add(group, resource, verb string) {
	key := groupResource{group, resource}
	if !slices.Contains(v[key], verb) {
		v[key] = append(v[key], verb)
	}
}

// rules returns one rule for all resources of a group with the same verbs, and one for all paths
// with the same verbs, in a deterministic order.
func (v verbsOf) rules() []rbacv1.PolicyRule {
	grouped := map[string]rbacv1.PolicyRule{}
	for key, verbs := range v {
		slices.Sort(verbs)
		isPath := strings.HasPrefix(key.resource, "/")
		id := fmt.Sprint(isPath, key.group, verbs)
		rule := grouped[id]
		rule.Verbs = verbs
		if isPath {
			rule.NonResourceURLs = append(rule.NonResourceURLs, key.resource)
			slices.Sort(rule.NonResourceURLs)
		} else {
			rule.APIGroups, rule.Resources = []string{key.group}, append(rule.Resources, key.resource)
			slices.Sort(rule.Resources)
		}
		grouped[id] = rule
	}
	return slices.SortedFunc(maps.Values(grouped), func(a, b rbacv1.PolicyRule) int {
		return slices.Compare(slices.Concat(a.APIGroups, a.Resources, a.NonResourceURLs), slices.Concat(b.APIGroups, b.Resources, b.NonResourceURLs))
	})
}
