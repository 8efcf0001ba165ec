package text

import (
	"regexp"
	"strings"
)

// keywords end the names of fields, variables and flags that hold a secret.
var keywords = []string{"password", "passwd", "passphrase", "token", "secret", "key", "credential", "psk"}

const keywordPattern = `(?:password|passwd|passphrase|token|secret|credentials?|psk|(?:api|access|account|client|private|secret|signing|encryption|daemon)[_-]?key)`

var (
	assignmentLead = regexp.MustCompile(`(?i)` + keywordPattern + `\\*["']?[ \t]*(?::?=>?|:)[ \t]*\\*["'\x60]?`)
	flagLead       = regexp.MustCompile(`(?i)(?:^|[ \t"'])--?[a-z0-9_-]*` + keywordPattern + `[ \t]+`)
	fieldAfter     = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}[=:]`)
)

// assignedLength is for "password=x", "password: x" and their like in JSON, YAML
// and Go.
//
// After a colon without quotes a sentence may follow ("invalid token: expired"),
// so there the value itself must look like a secret.
func assignedLength(lead, rest string) int {
	if strings.ContainsAny(lead[len(lead)-1:], "\"'`") {
		return quotedLength(lead, rest)
	}
	head := first(rest, maxWord)
	length := unquotedLength(head)
	v := head[:length]
	if saysNothing(v) || isStructure(v) || isSecretsName(lead, v) {
		return 0
	}
	if strings.Contains(lead, "=") || looksSecret(v) || (isPassword(lead) && (length == maxWord || isBlank(rest[length:]))) {
		return unquotedLength(rest)
	}
	return 0
}

// isBlank says that there is nothing but white space. It looks no further than the
// first character that is none.
func isBlank(s string) bool { return strings.TrimLeft(s, " \t\n") == "" }

func quotedLength(lead, rest string) int {
	length := closingQuote(lead, rest)
	if v := rest[:length]; saysNothing(v) || isSecretsName(lead, v) {
		return 0
	}
	return length
}

// closingQuote is where the string ends that the last character of lead opens.
// Within a string, a quote that ends it has as many backslashes before it as the
// one that began it.
func closingQuote(lead, rest string) int {
	quote := lead[len(lead)-1]
	opening := len(lead) - 1 - len(strings.TrimRight(lead[:len(lead)-1], `\`))
	backslashes := 0
	for i := range len(rest) {
		switch c := rest[i]; {
		case c == '\n':
			return i
		case c == '\\':
			backslashes++
		case c == quote && backslashes == opening:
			return i - backslashes
		default:
			backslashes = 0
		}
	}
	return len(rest)
}

// unquotedLength is how long a value without quotes is. It may hold any sign that
// does not end it, as passwords do.
func unquotedLength(rest string) int {
	end := len(rest)
	for i := range len(rest) {
		if endsValue(rest[i:]) {
			end = i
			break
		}
	}
	v := strings.TrimRight(rest[:end], ",;.!)]}>")
	if strings.ContainsAny(v, "([{<") {
		// The bracket at the end belongs to the value.
		v = strings.TrimRight(rest[:end], ",;.!")
	}
	return len(v)
}

// endsValue says whether a value without quotes ends before rest.
func endsValue(rest string) bool {
	switch rest[0] {
	case ' ', '\t', '\n', '"', '\'', '`':
		return true
	case '\\':
		return len(rest) > 1 && strings.IndexByte(`nrt"'`, rest[1]) >= 0
	case ',', ';', '&':
		return fieldAfter.MatchString(rest[1:])
	}
	return false
}

// isSecretsName says whether the value is the name of a Secret of Kubernetes.
func isSecretsName(lead, v string) bool {
	return strings.HasPrefix(strings.ToLower(lead), "secret") && namesObject(v)
}

func isPassword(lead string) bool {
	return strings.HasPrefix(strings.ToLower(lead), "pass")
}

// flagLength is for "--token x".
func flagLength(_, rest string) int {
	if strings.HasPrefix(rest, "-") {
		return 0
	}
	length := unquotedLength(first(rest, maxWord))
	if v := rest[:length]; saysNothing(v) || !looksSecret(v) {
		return 0
	}
	return unquotedLength(rest)
}
