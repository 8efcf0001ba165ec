// Command mcprole prints the ClusterRole of the MCP server: the right to act as
// its callers, on just those resources and with just those verbs that its tools,
// prompts and resources use, and the little that it does as itself. With the argument
// inside it prints the role that the server needs beside it for that toolset, which is
// offered only if an administrator asks for it.
//
// The rules are those of constrained impersonation (Kubernetes 1.36 and later). It
// asks of whoever acts as somebody two rights: one to be that person
// (impersonate:<mode>) and one for what is then done (impersonate-on:<mode>:<verb>),
// and it never lets anybody be a member of system:masters.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/access"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/prompts"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/resources"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/tools"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// The ways of being somebody else. A service account is impersonated in its own
// way, because its groups follow from its name.
const (
	asPerson         = "user-info"
	asServiceAccount = "serviceaccount"
)

func main() {
	made := clusterRole()
	if len(os.Args) > 1 && os.Args[1] == toolset.Inside {
		made = insideRole()
	}
	role, err := yaml.Marshal(made)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "---\n%s", role)
}

func clusterRole() rbacv1.ClusterRole {
	verbs := ownVerbs()
	verbs.actOn(callersRights())
	return verbs.role("coder-k8s-mcp")
}

// insideRole has what toolset inside needs and clusterRole does not have.
func insideRole() rbacv1.ClusterRole {
	verbs := verbsOf{}
	usual := callersRights()
	verbs.actOn(slices.DeleteFunc(toolRights(true), func(right access.Right) bool { return slices.Contains(usual, right) }))
	return verbs.role("coder-k8s-mcp-inside")
}

// callersRights is what is done as callers, unless toolset inside is offered.
func callersRights() []access.Right {
	return slices.Concat(prompts.Rights(), resources.Rights(), access.Rights(), toolRights(false))
}

// toolRights are those of the tools of toolset inside, or of all others.
func toolRights(inside bool) []access.Right {
	var rights []access.Right
	for _, definition := range tools.All().Definitions() {
		if (definition.Toolset == toolset.Inside) == inside {
			rights = append(rights, definition.AllRights()...)
		}
	}
	return rights
}

// ownVerbs is the right to be somebody. What the server does as itself stands
// elsewhere: reviews of tokens and of access in system:auth-delegator, the list of
// control planes in config/rbac/mcp/control_planes.yaml, because an installation for
// some namespaces leaves it out.
func ownVerbs() verbsOf {
	const authentication = "authentication.k8s.io"
	verbs := verbsOf{}
	verbs.add(authentication, "users", "impersonate:"+asPerson)
	verbs.add(authentication, "groups", "impersonate:"+asPerson)
	verbs.add(authentication, "serviceaccounts", "impersonate:"+asServiceAccount)
	return verbs
}

type groupResource struct{ group, resource string }

// verbsOf is the verbs on each resource.
type verbsOf map[groupResource][]string

// actOn adds the verbs to use rights as somebody else.
func (v verbsOf) actOn(rights []access.Right) {
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

// rules has one rule for all resources of a group with the same verbs, and one for
// all paths with the same verbs, in an order that depends on nothing else.
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
