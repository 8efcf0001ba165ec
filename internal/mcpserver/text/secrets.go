package text

import (
	"regexp"
	"strings"
)

// form is one way in which a secret is written in a line.
type form struct {
	// hints are what a line in lower case has at least one of if the form is in it.
	// They keep the costlier search away from most lines.
	hints []string
	// lead matches what stands before the secret.
	lead *regexp.Regexp
	// length is how many of the first bytes of what follows the lead are secret; 0
	// where none are. It looks at a bounded part of what it does not take, or the
	// time would not grow with the length of the line alone.
	length func(lead, rest string) int
}

// forms are the ways in which secrets are written. Those that know most of what
// stands around a secret come first.
var forms = []form{
	{hints: []string{"authorization"}, lead: authorizationLead, length: authorizationLength},
	{hints: []string{"bearer", "basic"}, lead: schemeLead, length: credentialsLength},
	{hints: []string{"cookie"}, lead: cookieLead, length: cookieLength},
	{hints: []string{"://"}, lead: userLead, length: passwordLength},
	{hints: []string{"invalid port"}, lead: portLead, length: portLength},
	{hints: keywords, lead: assignmentLead, length: assignedLength},
	{hints: keywords, lead: flagLead, length: flagLength},
	{hints: []string{"eyj"}, lead: jwtLead, length: jwtLength},
	{hints: vendorHints, lead: vendorLead, length: vendorLength},
}

// redact replaces the secrets of each line.
func redact(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for line := range strings.Lines(s) {
		lower := strings.ToLower(line)
		for _, f := range forms {
			if f.isHinted(lower) {
				line = f.redact(line)
			}
		}
		b.WriteString(redactCoderTokens(line))
	}
	return b.String()
}

func (f form) isHinted(lower string) bool {
	for _, hint := range f.hints {
		if strings.Contains(lower, hint) {
			return true
		}
	}
	return false
}

func (f form) redact(line string) string {
	var b strings.Builder
	rest := line
	for lead := f.lead.FindStringIndex(rest); lead != nil; lead = f.lead.FindStringIndex(rest) {
		length := f.length(rest[lead[0]:lead[1]], rest[lead[1]:])
		b.WriteString(rest[:lead[1]])
		if length > 0 {
			b.WriteString(redacted)
		}
		rest = rest[lead[1]+length:]
	}
	b.WriteString(rest)
	return b.String()
}
