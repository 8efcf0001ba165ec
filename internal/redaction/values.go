package redaction

import (
	"regexp"
	"strings"
)

// Limits of the text that is inspected to decide whether it is a secret. A secret is then
// removed completely, however long it is.
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
	// objectName matches names of Kubernetes objects with more than one word, with or
	// without a namespace.
	objectName = regexp.MustCompile(`^[a-z0-9.]+[/-][a-z0-9./-]*$`)
)

// looksSecret distinguishes passwords and random values from words of a sentence or
// identifiers: it reports whether v contains digits or special characters, or changes case
// often.
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

// saysNothing reports whether a value is not a secret although it is in the place of one:
// words such as "none", references, paths, and text that is already redacted.
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

// isStructure reports whether v starts a structure as printed by Go or JSON, or a shell
// substitution.
func isStructure(v string) bool {
	for _, start := range []string{"{", "[", "&{", "map[", "=", "$(", "${"} {
		if strings.HasPrefix(v, start) {
			return true
		}
	}
	return false
}

// namesObject reports whether v is the name of an object. The name of a Secret is not
// secret.
func namesObject(v string) bool {
	return len(v) <= 253 && objectName.MatchString(v) && !uuid.MatchString(v)
}

func isNumber(v string) bool { return strings.Trim(v, "0123456789") == "" }

func first(s string, limit int) string { return s[:min(len(s), limit)] }

// until returns the part of s before the first of the characters.
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
