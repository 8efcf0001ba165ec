package coderd

import (
	"strings"
	"testing"
)

// TestRules lists what Coder accepts and refuses. Names are checked with codersdk itself. The addresses were tried with
// the validator that Coder uses, and TestContract tries some with Coder.
func TestRules(t *testing.T) {
	for name, rule := range map[string]struct {
		check    func(string) error
		accepted []string
		refused  []string
	}{
		"name": {
			CheckName,
			[]string{"a", "A-1", strings.Repeat("x", 32), "news", "templates"},
			[]string{"", strings.Repeat("x", 33), "new", "create", "a--b", "-a", "a-", "a.b", "a_b", "é", "a ", "a\n"},
		},
		"version name": {
			CheckVersionName,
			[]string{"v1", "1.2.3", "a_b-c.d", strings.Repeat("x", 64), "new"},
			[]string{"", strings.Repeat("x", 65), "a..b", ".a", "a.", "a b", "é"},
		},
		"display name": {
			CheckDisplayName,
			[]string{"", "x", "My template", strings.Repeat("x", 64), strings.Repeat("é", 32)},
			[]string{strings.Repeat("x", 65), strings.Repeat("é", 33), "a ", " a", "a\nb", "\ta", " ", "a\x00b"},
		},
		"full name": {
			CheckFullName,
			[]string{"", "Ada Lovelace", strings.Repeat("x", 128), strings.Repeat("é", 64)},
			[]string{strings.Repeat("x", 129), strings.Repeat("é", 65), " Ada", "Ada\u00a0", "A\x00"},
		},
		"email": {
			CheckEmail,
			[]string{"ada@example.com", "a.b+c@x-y.example.co", "ada@éxample.com", "é@example.com", "a@1.b"},
			[]string{
				"", "ada", "ada@", "ada@example.com.", "@example.com", "ada@localhost", "ada@example.1", "ada@example.com ", " ada@example.com", "a b@example.com",
				"Ada <ada@example.com>", "<ada@example.com>", `"a b"@example.com`, "a..b@example.com", "ada@@example.com", "ada@-x.com", "ada@x_y.com",
				"ada@[127.0.0.1]", "ada@example.com, b@example.com", "ada@example.c1", strings.Repeat("x", 250) + "@e.co",
			},
		},
	} {
		for _, text := range rule.accepted {
			if err := rule.check(text); err != nil {
				t.Errorf("%s %q: %v", name, text, err)
			}
		}
		for _, text := range rule.refused {
			if rule.check(text) == nil {
				t.Errorf("%s %q is accepted", name, text)
			}
		}
	}
	if CheckText(strings.Repeat("é", 10), 10) != nil || CheckText(strings.Repeat("é", 11), 10) == nil || CheckText("a\x00", 10) == nil {
		t.Error("a text has a limit of characters, and no NUL")
	}
}

// TestTheRuleIsNamed checks that an error has the rule, and not the tag of Coder's validator and the value, which may be
// secret.
func TestTheRuleIsNamed(t *testing.T) {
	for detail, want := range map[string]string{
		`Validation failed for tag "username" with value: "s3cret"`:  nameRule,
		`Validation failed for tag "email" with value: "s3cret"`:     emailRule,
		`Validation failed for tag "lt" with value: "s3cret"`:        `Coder does not accept this value (rule "lt" of its validator)`,
		"This value is already in use and should be unique.":         "This value is already in use and should be unique.",
		"Must be a duration. Validation failed for tag is no prefix": "Must be a duration. Validation failed for tag is no prefix",
	} {
		if got := explain(detail); got != want {
			t.Errorf("%s: %q", detail, got)
		}
	}
}
