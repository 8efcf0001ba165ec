package access

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
)

func TestGrants(t *testing.T) {
	rule := func(verb, group, resource string) authorizationv1.ResourceRule {
		return authorizationv1.ResourceRule{Verbs: []string{"other", verb}, APIGroups: []string{"other", group}, Resources: []string{"other", resource}}
	}
	logs := Right{Verb: "get", Resource: "pods/log"}
	tests := map[string]struct {
		rule  authorizationv1.ResourceRule
		right Right
		want  bool
	}{
		"the right itself":                  {rule("get", "coder.com", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, true},
		"another verb":                      {rule("list", "coder.com", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, false},
		"another group":                     {rule("get", "apps", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, false},
		"another resource":                  {rule("get", "coder.com", "coderprovisioners"), Right{"get", "coder.com", "codercontrolplanes"}, false},
		"every verb":                        {rule("*", "coder.com", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, true},
		"every group":                       {rule("get", "*", "codercontrolplanes"), Right{"get", "coder.com", "codercontrolplanes"}, true},
		"every resource":                    {rule("get", "coder.com", "*"), Right{"get", "coder.com", "codercontrolplanes"}, true},
		"the core group":                    {rule("get", "", "pods"), Right{"get", "", "pods"}, true},
		"the core group is not every group": {rule("get", "", "pods"), Right{"get", "coder.com", "pods"}, false},
		"the subresource itself":            {rule("get", "", "pods/log"), logs, true},
		"the resource is not its parts":     {rule("get", "", "pods"), logs, false},
		"a part is not the resource":        {rule("get", "", "pods/log"), Right{"get", "", "pods"}, false},
		"every resource has its parts":      {rule("get", "", "*"), logs, true},
		"the part of every resource":        {rule("get", "", "*/log"), logs, true},
		"another part of every resource":    {rule("get", "", "*/status"), logs, false},
		"every part of a resource":          {rule("get", "", "pods/*"), logs, false},
		"every part of every resource":      {rule("get", "", "*/*"), logs, false},
		"a part is not one of no resource":  {rule("get", "", "*/log"), Right{"get", "", "pods"}, false},
		"a part without a name is none":     {rule("get", "", "*/"), Right{"get", "", "pods"}, false},
		"for some objects only": {authorizationv1.ResourceRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"x"}},
			Right{"get", "", "pods"}, true},
		"nothing": {authorizationv1.ResourceRule{}, logs, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := grants(tc.rule, tc.right); got != tc.want {
				t.Errorf("%+v grants %+v: %v, want %v", tc.rule, tc.right, got, tc.want)
			}
		})
	}
}
