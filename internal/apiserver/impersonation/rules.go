package impersonation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Outcome is the kind of identity that a caller has in Coder.
type Outcome string

const (
	// Unmapped is a caller that no rule matches.
	Unmapped Outcome = "Unmapped"
	// CoderUser is a caller that acts as a Coder user.
	CoderUser Outcome = "CoderUser"
	// Operator is a caller that acts with the operator's account.
	Operator Outcome = "Operator"
	// Nobody is a caller that may do nothing.
	Nobody Outcome = "Nobody"
)

// Decision is the result of the rules for a caller.
type Decision struct {
	Outcome Outcome
	// Rule is the index of the rule that matched, or -1.
	Rule int
	// Username or Email identifies the Coder user. The other one is empty.
	Username, Email string
	// Reason explains why the rule matched, or that none did.
	Reason string
	// Problem explains why the rule yields no valid Coder user, although it maps to one. It is
	// empty if there is no problem.
	Problem string
}

// The valid usernames and emails of Coder. They are used in URLs and search queries.
var (
	validUsername = regexp.MustCompile(`^[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*$`)
	validEmail    = regexp.MustCompile(`^[^\s@:"{}]+@[^\s@:"{}]+$`)
)

// Decide applies the rules to a caller.
func Decide(rules []coderv1alpha1.IdentityRule, caller user.Info) Decision {
	for i := range rules {
		found, ok := matching(&rules[i].Match, caller)
		if !ok {
			continue
		}
		d := Decision{Rule: i, Reason: fmt.Sprintf("spec.identity.rules[%d] matches %s", i, found.what)}
		switch {
		case rules[i].Operator:
			d.Outcome = Operator
		case rules[i].CoderUser != nil:
			d.Outcome = CoderUser
			d.name(rules[i].CoderUser, found)
		default:
			d.Outcome = Nobody
		}
		return d
	}
	return Decision{Outcome: Unmapped, Rule: -1, Reason: "no rule of spec.identity.rules matches"}
}

// match describes how a rule matched.
type match struct {
	// what is a human-readable description.
	what string
	name string
	// captures are the texts that * matched, and extras the values, of each matching value.
	captures, extras []string
}

func matching(m *coderv1alpha1.IdentityMatch, caller user.Info) (match, bool) {
	found := match{name: caller.GetName()}
	switch {
	case m.UserName != "":
		found.what = fmt.Sprintf("the user name %q", caller.GetName())
		return found, found.capture(m.UserName, caller.GetName())
	case m.Group != "":
		found.what = fmt.Sprintf("the group %q", m.Group)
		return found, slices.Contains(caller.GetGroups(), m.Group)
	case m.ServiceAccount != nil:
		namespace, name, err := serviceaccount.SplitUsername(caller.GetName())
		found.what = fmt.Sprintf("the ServiceAccount %s/%s", namespace, name)
		return found, err == nil && namespace == m.ServiceAccount.Namespace && found.capture(m.ServiceAccount.Name, name)
	case m.Extra != nil:
		for _, value := range caller.GetExtra()[m.Extra.Key] {
			if !slices.Contains(found.extras, value) && found.capture(m.Extra.Value, value) {
				found.extras = append(found.extras, value)
			}
		}
		found.what = fmt.Sprintf("%q of the extra attribute %s", found.extras, m.Extra.Key)
		return found, len(found.extras) > 0
	}
	return found, false
}

// capture reports whether a text matches a pattern, and stores the text that * matched.
func (m *match) capture(pattern, text string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return text == pattern
	}
	if len(text) <= len(before)+len(after) || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
		return false
	}
	m.captures = append(m.captures, text[len(before):len(text)-len(after)])
	return true
}

// name sets the Coder user of a rule.
func (d *Decision) name(to *coderv1alpha1.CoderUserReference, found match) {
	template := to.Username + to.Email
	// An attribute may have several values. It is an error if more than one could be the user.
	if len(found.extras) > 1 && (strings.Contains(template, "{extra}") || strings.Contains(template, "{match}")) {
		d.Problem = fmt.Sprintf("several values match, %q, and only one can name the Coder user", found.extras)
		return
	}
	first := func(all []string) string { return strings.Join(all[:min(len(all), 1)], "") }
	// Replace in one pass, so that placeholders within a value are not expanded.
	text := strings.NewReplacer("{name}", found.name, "{match}", first(found.captures), "{extra}", first(found.extras)).Replace(template)
	switch {
	case to.Username != "" && validUsername.MatchString(text):
		d.Username = text
	case to.Username != "":
		d.Problem = fmt.Sprintf("%q cannot be a username in Coder", text)
	case validEmail.MatchString(text):
		d.Email = text
	default:
		d.Problem = fmt.Sprintf("%q is no email address", text)
	}
}
