package redaction

import (
	"regexp"
	"slices"
	"strings"
)

// form is one way in which a secret is written in a line.
type form struct {
	// hints are texts in lower case. A line with this form has at least one of them, so
	// most lines need no search with the pattern, which is many times slower.
	hints []string
	// lead matches what precedes the secret.
	lead *regexp.Regexp
	// length returns how many of the first bytes after the lead are secret, or 0. It
	// looks at a bounded part of what it does not remove, or the time would not grow with
	// the length of the line alone.
	length func(m match) int
	// token says that the lead is the public beginning of a token. Text removes it too.
	token bool
}

// match is a lead and the rest of the line.
type match struct {
	lead, rest string
	// strict is set for Text.
	strict bool
}

// forms are looked for in this order: first those that know most about what surrounds a
// secret.
var forms = []form{
	{hints: []string{"authorization"}, lead: authorizationLead, length: authorizationLength},
	{hints: []string{"bearer", "basic", "digest", "negotiate"}, lead: schemeLead, length: credentialsLength},
	{hints: []string{"cookie"}, lead: cookieLead, length: cookieLength},
	{hints: []string{"://"}, lead: userLead, length: passwordLength},
	{hints: []string{"invalid port"}, lead: portLead, length: portLength},
	{hints: keywordHints, lead: assignmentLead, length: assignedLength},
	{hints: keywordHints, lead: flagLead, length: flagLength},
	{hints: []string{"-u", "--user"}, lead: accountLead, length: accountLength},
	{hints: []string{"?", "&"}, lead: parameterLead, length: parameterLength},
	{hints: []string{"eyj"}, lead: jwtLead, length: jwtLength, token: true},
	{hints: vendorHints, lead: vendorLead, length: vendorLength, token: true},
}

// mostPasses bounds how often a line is searched.
const mostPasses = 8

// withoutForms removes what has the form of a secret.
func withoutForms(text string, strict bool) string {
	text = withoutBlocks(withoutPrivateKeys(text))
	var out strings.Builder
	out.Grow(len(text))
	for line := range strings.Lines(text) {
		// What was removed can complete another form, so until nothing changes.
		for range mostPasses {
			before := line
			if line = lineWithoutForms(line, strict); line == before {
				break
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

func lineWithoutForms(line string, strict bool) string {
	if strict {
		line = Users(line)
	}
	lower := strings.ToLower(line)
	for _, f := range forms {
		if slices.ContainsFunc(f.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			line = f.redact(line, strict)
		}
	}
	return withoutCoderTokens(line, strict)
}

func (f form) redact(line string, strict bool) string {
	var out strings.Builder
	rest := line
	for at := f.lead.FindStringIndex(rest); at != nil; at = f.lead.FindStringIndex(rest) {
		start, end := at[0], at[1]
		if strings.HasPrefix(rest[end-1:], Placeholder) {
			// The bracket belongs to what replaced a secret before.
			end--
		}
		length := f.length(match{lead: rest[start:end], rest: rest[end:], strict: strict})
		kept := end
		if strict && f.token && length > 0 {
			kept = start
		}
		out.WriteString(rest[:kept])
		if length > 0 {
			out.WriteString(Placeholder)
		}
		rest = rest[end+length:]
	}
	out.WriteString(rest)
	return out.String()
}

// Prose returns the text without what certainly is a secret. Sentences about secrets, and
// the public beginning of tokens, stay.
func Prose(text string) string { return withoutForms(text, false) }

// HoldsSecret reports whether Prose would remove something.
func HoldsSecret(text string) bool { return Prose(text) != text }

// LooksSecret reports whether a value has the form of a secret, in doubt too.
func LooksSecret(value string) bool {
	return strings.Contains(withoutForms(value, true), Placeholder) && !strings.Contains(value, Placeholder)
}
