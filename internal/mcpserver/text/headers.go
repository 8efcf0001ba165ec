package text

import (
	"regexp"
	"strings"
)

var (
	authorizationLead = regexp.MustCompile(`(?i)authorization\\*["']?[ \t]*[:=][ \t]*\\*["'\[]*(?:(?:basic|bearer|negotiate|token|aws4-hmac-sha256)[ \t]+)?`)
	schemeLead        = regexp.MustCompile(`(?i)\b(?:bearer|basic)[ \t]+`)
	cookieLead        = regexp.MustCompile(`(?i)\bcookie\\*["']?[ \t]*[:=][ \t]*\\*["'\[]*`)
	cookiePair        = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}=`)
)

// authorizationLength is for the header Authorization as dumps of requests have
// it, and for the same word in a sentence, which is no header.
func authorizationLength(lead, rest string) int {
	word := first(rest, maxWord)
	if end := strings.IndexAny(word, " \t\n\"'\\],"); end >= 0 {
		word = word[:end]
	}
	whole := hasScheme(lead) && len(word) == headerLength(first(rest, maxWord)) && !saysNothing(word)
	if !whole && !looksSecret(word) {
		return 0
	}
	return headerLength(rest)
}

func hasScheme(lead string) bool {
	word := strings.TrimRight(lead, " \t")
	return len(word) < len(lead) && run(word[len(word)-1:], "") > 0
}

// headerLength is how long the value of a header is.
func headerLength(rest string) int {
	if end := strings.IndexAny(rest, "\n\"'\\]"); end >= 0 {
		return end
	}
	return len(rest)
}

// credentialsLength is for "Bearer x" and "Basic x" anywhere.
func credentialsLength(_, rest string) int {
	length := run(first(rest, maxWord), "-._~+/=")
	if !looksSecret(rest[:length]) {
		return 0
	}
	return run(rest, "-._~+/=")
}

// cookieLength is for the headers Cookie and Set-Cookie.
func cookieLength(_, rest string) int {
	if !cookiePair.MatchString(rest) {
		return 0
	}
	return headerLength(rest)
}
