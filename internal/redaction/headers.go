package redaction

import (
	"regexp"
	"strings"
)

var (
	authorizationLead = regexp.MustCompile(`(?i)authorization\\*["']?[ \t]*(?::?=>?|:)[ \t]*\\*["'\[]*(?:(?:basic|bearer|digest|negotiate|token|aws4-hmac-sha256)[ \t]+)?`)
	schemeLead        = regexp.MustCompile(`(?i)\b(?:bearer|basic|digest|negotiate)[ \t]+`)
	cookieLead        = regexp.MustCompile(`(?i)\bcookie\\*["']?[ \t]*[:=][ \t]*\\*["'\[]*`)
	cookiePair        = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}=`)
)

// leastCredentials is the minimum length of credentials that Text removes after the name of
// a scheme.
const leastCredentials = 8

// authorizationLength is the length function for the header Authorization in dumps of
// requests, and for the same word in a sentence.
func authorizationLength(m match) int {
	head := first(m.rest, maxWord)
	word := until(head, blanks+`"'\],`)
	// The lead ends with the word of a scheme and a space.
	lead := strings.TrimRight(m.lead, " \t")
	hasScheme := len(lead) < len(m.lead) && run(lead[len(lead)-1:], "") > 0
	whole := hasScheme && len(word) == headerLength(head) && !saysNothing(word)
	if !m.strict && !whole && !looksSecret(word) {
		return 0
	}
	return headerLength(m.rest)
}

// headerLength returns the length of a header's value.
func headerLength(rest string) int {
	done := 0
	if strings.HasPrefix(rest, Placeholder) {
		done = len(Placeholder)
	}
	return done + len(until(rest[done:], "\r\n\"'\\]"))
}

// credentialsLength is the length function for "Bearer x" and "Basic x" anywhere. "digest
// sha256:x" is an image.
func credentialsLength(m match) int {
	const characters = "-._~+/="
	v := first(m.rest, maxWord)
	v = v[:run(v, characters)]
	if strings.HasPrefix(m.rest[len(v):], ":") || !looksSecret(v) && (!m.strict || len(v) < leastCredentials) {
		return 0
	}
	return run(m.rest, characters)
}

// cookieLength is the length function for the headers Cookie and Set-Cookie.
func cookieLength(m match) int {
	if !m.strict && !cookiePair.MatchString(m.rest) {
		return 0
	}
	return headerLength(m.rest)
}
