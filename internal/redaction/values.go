package redaction

import (
	"regexp"
	"strings"
)

// How far ahead it is decided whether something is a secret. A secret is then removed to its
// end, however far that is.
const (
	maxToken    = 64
	maxWord     = 256
	maxHeader   = 1024
	maxPassword = 2048
	blanks      = " \t\r\n\v\f"
)

var (
	lowerPath = regexp.MustCompile(`^/[a-z0-9._/-]*$`)
	reference = regexp.MustCompile(`^\$(?:\([A-Za-z0-9_]+\)|\{[A-Za-z0-9_.]+\}|[A-Z0-9_]+)$`)
	removed   = regexp.MustCompile(`(?i)^[(\[<]?redacted[)\]>]?$`)
	uuid      = regexp.MustCompile(`^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	// objectName is the name of a Kubernetes object of more than one word, with its
	// namespace or without.
	objectName = regexp.MustCompile(`^[a-z0-9.]+[/-][a-z0-9./-]*$`)
)

// looksSecret distinguishes what a person or a machine made up from a word of a sentence or of
// a program: it has digits or signs, or changes case often.
func looksSecret(v string) bool {
	if len(v) < 6 {
		return false
	}
	changes := 0
	for i := range len(v) {
		switch c := v[i]; {
		case isDigit(c), strings.IndexByte("!@#$%^&*~+", c) >= 0:
			return true
		case i > 0 && isUpper(c) && isLower(v[i-1]):
			changes++
		}
	}
	return changes >= 4
}

// saysNothing reports whether a value is no secret, although one could be there: words for
// nothing, references, files, and what is redacted already.
func saysNothing(v string) bool {
	if len(v) > 128 {
		return false
	}
	switch strings.ToLower(v) {
	case "", "true", "false", "null", "nil", "none", "<nil>", "<none>", "hidden", "empty", "unset":
		return true
	}
	return strings.Trim(v, "*") == "" || len(v) > 3 && strings.Trim(v, "xX") == "" || reference.MatchString(v) || removed.MatchString(v) || lowerPath.MatchString(v)
}

// isStructure reports whether a structure begins here, as Go and JSON print it, or the
// substitution of a shell.
func isStructure(v string) bool {
	for _, start := range []string{"{", "[", "&{", "map[", "=", "$(", "${"} {
		if strings.HasPrefix(v, start) {
			return true
		}
	}
	return false
}

// namesObject reports whether v is the name of an object: that of a Secret is no secret.
func namesObject(v string) bool {
	return len(v) <= 253 && objectName.MatchString(v) && !uuid.MatchString(v)
}

func isNumber(v string) bool { return strings.Trim(v, "0123456789") == "" }

func first(s string, limit int) string { return s[:min(len(s), limit)] }

// until returns what precedes the first of some characters.
func until(s, characters string) string {
	if end := strings.IndexAny(s, characters); end >= 0 {
		return s[:end]
	}
	return s
}

// run returns how many of the first bytes of s are letters, digits or one of others.
func run(s, others string) int {
	for i := range len(s) {
		if c := s[i]; !isLower(c) && !isUpper(c) && !isDigit(c) && strings.IndexByte(others, c) < 0 {
			return i
		}
	}
	return len(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
