package redaction

import (
	"regexp"
	"slices"
	"strings"
)

// pattern is one way in which a secret occurs in a line.
type pattern struct {
	// hints are lower-case substrings. A line with this pattern contains at least one of them,
	// so most lines can skip the regular expression, which is many times slower.
	hints []string
	// lead matches the text before the secret.
	lead *regexp.Regexp
	// length returns how many of the first bytes after the lead are secret, or 0. It
	// inspects a limited part of the text that it keeps, so that the total time stays
	// linear in the length of the line.
	length func(m match) int
	// token reports that the lead is the public prefix of a token. Text removes it too.
	token bool
}

// match is a lead with the text before the secret, and the rest of the line.
type match struct {
	lead, rest string
	// strict is set for Text.
	strict bool
}

// patterns are applied in this order, the ones with the most context first.
var patterns = []pattern{
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

// mostPasses limits how often a line is searched.
const mostPasses = 8

// withoutSecrets removes text that looks like a secret.
func withoutSecrets(text string, strict bool) string {
	text = withoutBlocks(withoutPrivateKeys(text))
	var out strings.Builder
	out.Grow(len(text))
	for line := range strings.Lines(text) {
		// A removal can complete another pattern, so repeat until nothing changes.
		for range mostPasses {
			before := line
			if line = lineWithoutSecrets(line, strict); line == before {
				break
			}
		}
		out.WriteString(line)
	}
	return out.String()
}

func lineWithoutSecrets(line string, strict bool) string {
	if strict {
		line = Users(line)
	}
	lower := strings.ToLower(line)
	for _, p := range patterns {
		if slices.ContainsFunc(p.hints, func(hint string) bool { return strings.Contains(lower, hint) }) {
			line = p.redact(line, strict)
		}
	}
	return withoutCoderTokens(line, strict)
}

func (p pattern) redact(line string, strict bool) string {
	var out strings.Builder
	rest := line
	for at := p.lead.FindStringIndex(rest); at != nil; at = p.lead.FindStringIndex(rest) {
		start, end := at[0], at[1]
		if strings.HasPrefix(rest[end-1:], Placeholder) {
			// The bracket is the beginning of a Placeholder of an earlier pattern.
			end--
		}
		length := p.length(match{lead: rest[start:end], rest: rest[end:], strict: strict})
		kept := end
		if strict && p.token && length > 0 {
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

// Prose returns the text without text that certainly is a secret. It keeps sentences about
// secrets, and the public prefixes of tokens.
func Prose(text string) string { return withoutSecrets(text, false) }

// HoldsSecret reports whether Prose would change the text.
func HoldsSecret(text string) bool { return Prose(text) != text }

// LooksSecret reports whether a value looks like a secret, by the strict rules of Text.
func LooksSecret(value string) bool {
	return strings.Contains(withoutSecrets(value, true), Placeholder) && !strings.Contains(value, Placeholder)
}
