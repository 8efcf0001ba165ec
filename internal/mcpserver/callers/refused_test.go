package callers

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

func TestRefused(t *testing.T) {
	tests := map[string]struct {
		user   string
		groups []string
		// says is a part of the reason; empty means that the user is accepted.
		says string
	}{
		"a person":                                    {user: "alice", groups: []string{"platform", "system:authenticated"}},
		"a person of an issuer":                       {user: "https://login.example.com#7f3c"},
		"a name with a space in it":                   {user: "Alice Smith", groups: []string{"Platform Team"}},
		"a service account":                           {user: "system:serviceaccount:coder:robot", groups: []string{"system:serviceaccounts", "system:serviceaccounts:coder"}},
		"a service account with dots":                 {user: "system:serviceaccount:coder:robot.v2"},
		"nobody":                                      {says: "names no user"},
		"the anonymous user":                          {user: "system:anonymous", says: "belongs to Kubernetes"},
		"a node":                                      {user: "system:node:a", says: "belongs to Kubernetes"},
		"the scheduler":                               {user: "system:kube-scheduler", says: "belongs to Kubernetes"},
		"the administrator of the cluster":            {user: "system:admin", says: "belongs to Kubernetes"},
		"the prefix alone":                            {user: "system:", says: "belongs to Kubernetes"},
		"a service account without anything":          {user: "system:serviceaccount:", says: "belongs to Kubernetes"},
		"a service account without a name":            {user: "system:serviceaccount:coder:", says: "belongs to Kubernetes"},
		"a service account without a namespace":       {user: "system:serviceaccount::robot", says: "belongs to Kubernetes"},
		"a service account with a third part":         {user: "system:serviceaccount:coder:robot:x", says: "belongs to Kubernetes"},
		"a service account that cannot exist":         {user: "system:serviceaccount:coder:Robot/x", says: "belongs to Kubernetes"},
		"the groups of service accounts as a user":    {user: "system:serviceaccounts:coder", says: "belongs to Kubernetes"},
		"system:masters":                              {user: "alice", groups: []string{"system:masters"}, says: `"system:masters"`},
		"system:masters after others":                 {user: "alice", groups: []string{"a", "b", "system:masters"}, says: `"system:masters"`},
		"system:masters before others":                {user: "alice", groups: []string{"system:masters", "a"}, says: `"system:masters"`},
		"a service account in system:masters":         {user: "system:serviceaccount:coder:robot", groups: []string{"system:masters"}, says: `"system:masters"`},
		"system:nodes":                                {user: "alice", groups: []string{"system:nodes"}, says: `"system:nodes"`},
		"system:unauthenticated":                      {user: "alice", groups: []string{"system:unauthenticated"}, says: `"system:unauthenticated"`},
		"system:masters that is trimmed on the way":   {user: "alice", groups: []string{" system:masters"}, says: "plain ASCII"},
		"another that is":                             {user: "alice", groups: []string{"system:masters\t"}, says: "plain ASCII"},
		"a name that becomes another one on the way":  {user: "alice ", says: "plain ASCII"},
		"a system name hidden behind a space":         {user: " system:admin", says: "plain ASCII"},
		"a name with a line of its own":               {user: "alice\r\nImpersonate-Group: system:masters", says: "plain ASCII"},
		"a name with a zero byte":                     {user: "alice\x00", says: "plain ASCII"},
		"a name that is not ASCII":                    {user: "jürgen", says: "plain ASCII"},
		"a group that is not ASCII":                   {user: "alice", groups: []string{"команда"}, says: "plain ASCII"},
		"a group with a line of its own":              {user: "alice", groups: []string{"a\nImpersonate-User: bob"}, says: "plain ASCII"},
		"an empty group":                              {user: "alice", groups: []string{""}, says: "plain ASCII"},
		"a name that only looks like one of a system": {user: "systematic"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := Refused(&user.DefaultInfo{Name: tc.user, Groups: tc.groups})
			if (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
				t.Errorf("the reason is %q, want %q in it", got, tc.says)
			}
			if strings.ContainsAny(got, "\r\n") {
				t.Errorf("the reason has more than one line: %q", got)
			}
		})
	}
	if Refused(nil) == "" {
		t.Error("a missing user is not refused")
	}
	if why := Refused(Local{}); why != "" {
		t.Errorf("the process itself is refused: %s", why)
	}
}

// FuzzRefused checks that the API server receives the names of accepted users unchanged.
func FuzzRefused(f *testing.F) {
	for _, seed := range []string{"alice", "system:serviceaccount:a:b", "system:admin", " a", "a\n", "", "ü"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, name, group string) {
		if Refused(&user.DefaultInfo{Name: name, Groups: []string{"first", group}}) != "" {
			return
		}
		for _, s := range []string{name, group} {
			if s == "" || strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q goes into a header", s)
			}
		}
		if strings.HasPrefix(name, "system:") && strings.Count(name, ":") != 3 {
			t.Errorf("%q is let through", name)
		}
		if group == "system:masters" {
			t.Error("system:masters is let through")
		}
	})
}
