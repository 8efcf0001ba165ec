package impersonation

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func TestDecide(t *testing.T) {
	const email = "example.com/email"
	person := func(name string, change ...func(*user.DefaultInfo)) user.Info {
		u := &user.DefaultInfo{Name: name, Groups: []string{"system:authenticated"}}
		for _, c := range change {
			c(u)
		}
		return u
	}
	extra := func(values ...string) func(*user.DefaultInfo) {
		return func(u *user.DefaultInfo) { u.Extra = map[string][]string{email: values} }
	}
	group := func(name string) func(*user.DefaultInfo) {
		return func(u *user.DefaultInfo) { u.Groups = append(u.Groups, name) }
	}
	for name, c := range map[string]struct {
		rules  string
		caller user.Info
		// want, rule and as are the expected outcome, rule and user.
		want    Outcome
		rule    int
		as      string
		problem string
	}{
		"no rules":                       {caller: person("alice"), want: Unmapped, rule: -1},
		"equal names alone mean nothing": {`[{match: {userName: bob}, coderUser: {username: bob}}]`, person("alice"), Unmapped, -1, "", ""},
		"a name":                         {`[{match: {userName: oidc:alice}, coderUser: {username: alice-dev}}]`, person("oidc:alice"), CoderUser, 0, "alice-dev", ""},
		"case counts":                    {`[{match: {userName: alice}, coderUser: {username: alice}}]`, person("Alice"), Unmapped, -1, "", ""},
		"the whole name":                 {`[{match: {userName: "*"}, coderUser: {username: "{name}"}}]`, person("alice"), CoderUser, 0, "alice", ""},
		"a captured part":                {`[{match: {userName: "oidc:*@example.com"}, coderUser: {username: "x-{match}"}}]`, person("oidc:alice@example.com"), CoderUser, 0, "x-alice", ""},
		"* stands for something":         {`[{match: {userName: "oidc:*"}, coderUser: {username: "{match}"}}]`, person("oidc:"), Unmapped, -1, "", ""},
		"both ends do not overlap":       {`[{match: {userName: "ab*ba"}, nobody: true}]`, person("aba"), Unmapped, -1, "", ""},
		"a name that is no username":     {`[{match: {userName: "*"}, coderUser: {username: "{name}"}}, {match: {userName: "*"}, operator: true}]`, person("../admin"), CoderUser, 0, "", "cannot be a username"},
		"a name that is a template":      {`[{match: {userName: "x*"}, coderUser: {username: "{match}"}}]`, person("x{name}"), CoderUser, 0, "", "cannot be a username"},
		"a group":                        {`[{match: {group: ops}, operator: true}]`, person("alice", group("ops")), Operator, 0, "", ""},
		"another group":                  {`[{match: {group: ops}, operator: true}]`, person("alice", group("operators")), Unmapped, -1, "", ""},
		"an email in extra":              {`[{match: {extra: {key: example.com/email, value: "*"}}, coderUser: {email: "{extra}"}}]`, person("1234", extra("Alice@example.com")), CoderUser, 0, "Alice@example.com", ""},
		"a part of it":                   {`[{match: {extra: {key: example.com/email, value: "*@example.com"}}, coderUser: {username: "{match}"}}]`, person("1234", extra("x@other.com", "alice@example.com")), CoderUser, 0, "alice", ""},
		"the same value twice":           {`[{match: {extra: {key: example.com/email, value: "*"}}, coderUser: {email: "{extra}"}}]`, person("1234", extra("a@b.c", "a@b.c")), CoderUser, 0, "a@b.c", ""},
		"two values":                     {`[{match: {extra: {key: example.com/email, value: "*"}}, coderUser: {email: "{extra}"}}]`, person("1234", extra("a@b.c", "d@e.f")), CoderUser, 0, "", "several values"},
		"two values, one user":           {`[{match: {extra: {key: example.com/email, value: "*"}}, coderUser: {username: shared}}]`, person("1234", extra("a@b.c", "d@e.f")), CoderUser, 0, "shared", ""},
		"a value that is no email":       {`[{match: {extra: {key: example.com/email, value: "*"}}, coderUser: {email: "{extra}"}}]`, person("1234", extra("a@b.c role:owner")), CoderUser, 0, "", "no email"},
		"no such extra":                  {`[{match: {extra: {key: example.com/email, value: "*"}}, nobody: true}]`, person("alice"), Unmapped, -1, "", ""},
		"a ServiceAccount":               {`[{match: {serviceAccount: {namespace: flux, name: kustomize}}, operator: true}]`, person("system:serviceaccount:flux:kustomize"), Operator, 0, "", ""},
		"a ServiceAccount by pattern":    {`[{match: {serviceAccount: {namespace: ci, name: "build-*"}}, coderUser: {username: "bot-{match}"}}]`, person("system:serviceaccount:ci:build-7"), CoderUser, 0, "bot-7", ""},
		"one of another namespace":       {`[{match: {serviceAccount: {namespace: flux, name: kustomize}}, operator: true}]`, person("system:serviceaccount:other:kustomize"), Unmapped, -1, "", ""},
		"a person is no ServiceAccount":  {`[{match: {serviceAccount: {namespace: flux, name: "*"}}, operator: true}]`, person("flux:kustomize"), Unmapped, -1, "", ""},
		"the first of two":               {`[{match: {userName: alice}, nobody: true}, {match: {userName: alice}, operator: true}]`, person("alice"), Nobody, 0, "", ""},
		"the second":                     {`[{match: {userName: bob}, nobody: true}, {match: {userName: alice}, operator: true}]`, person("alice"), Operator, 1, "", ""},
		"a rule without a match":         {`[{operator: true}]`, person("alice"), Unmapped, -1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []coderv1alpha1.IdentityRule
			if err := yaml.UnmarshalStrict([]byte(c.rules), &rules); err != nil {
				t.Fatal(err)
			}
			got := Decide(rules, c.caller)
			if got.Outcome != c.want || got.Rule != c.rule || got.Username+got.Email != c.as || !strings.Contains(got.Problem, c.problem) || (c.problem == "") != (got.Problem == "") {
				t.Errorf("%+v", got)
			}
			if got.Reason == "" {
				t.Errorf("nothing for people in %+v", got)
			}
		})
	}
}
