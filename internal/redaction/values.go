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

// keyword matches the words at the end of the names of fields, variables and flags that
// contain a secret.
const keyword = `(?:pass(?:word|wd|phrase|code)?|pwd|psk|secret|token|credential|cookie|license|access[_-]?key[_-]id|` +
	`(?:api|access|account|client|private|secret|signing|encryption|daemon)[_-]?key)s?`

// keywordHints are lower-case substrings, of which each keyword contains one.
var keywordHints = []string{"pass", "pwd", "psk", "secret", "token", "key", "credential", "cookie", "license"}

var (
	namesSecret = regexp.MustCompile(`(?i)(?:authorization|` + keyword + `)[_-]?[0-9]*$`)
	// variableNamesSecret is broader, because names of variables contain more words.
	variableNamesSecret = regexp.MustCompile(`(?i)passw|passphrase|passcode|secret|token|credential|private|license|cookie|basic_?auth|oauth|` +
		`api[_-]?key|connection_url|keys?$|^auth(?:[^a-z]|$)|(?:^|[^a-z])(?:pass|pwd|psk|pat|dsn|key)(?:[^a-z]|$)`)
	// harmlessVariable matches the end of names that only describe a secret or its
	// location.
	harmlessVariable = regexp.MustCompile(`(?i)_(?:FILE|PATH|NAME|ENABLED?|DISABLED?|TTL|LIFETIME|DURATION|FIELD|TOKEN_URL|TYPE)$`)
)

// NamesSecret reports whether a field with this name probably contains a secret: password,
// db_token, GITHUB_CLIENT_SECRET. token_ttl and secretName do not.
func NamesSecret(name string) bool { return namesSecret.MatchString(name) }

// VariableNamesSecret reports the same for an environment variable or a parameter, whose
// name may contain the word anywhere: GIT_TOKEN_2_RO, private_host, pat.
func VariableNamesSecret(name string) bool {
	return variableNamesSecret.MatchString(name) && !harmlessVariable.MatchString(name)
}
