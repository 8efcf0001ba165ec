package redaction

import (
	"regexp"
	"slices"
	"strings"
)

var (
	assignmentLead = regexp.MustCompile(`(?i)` + keyword + `\\*["']?[ \t]*(?::?=>?|:)[ \t]*\\*["'\x60]?`)
	flagLead       = regexp.MustCompile(`(?i)--?[a-z0-9_-]*` + keyword + `[ \t]+`)
	// strictLead matches keywords that are also used in normal sentences and code.
	strictLead = regexp.MustCompile(`(?i)^(?:cookie|license)`)
	fieldAfter = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}[=:]`)
)

// assignedLength is the length function for "password=x", "password: x" and similar forms
// in JSON, YAML and Go.
//
// After a colon without quotes a sentence may follow ("invalid token: expired"), so in that
// case Prose requires that the value itself looks like a secret.
func assignedLength(m match) int {
	switch {
	case strings.ContainsAny(m.lead[len(m.lead)-1:], "\"'`"):
		if !m.strict && strictLead.MatchString(m.lead) {
			// The end of a value that is kept is not looked for, so that the time stays linear.
			return 0
		}
		length := closingQuote(m.lead, m.rest)
		if !m.strict && isHarmless(m.lead, m.rest[:length]) {
			return 0
		}
		return length
	case m.strict:
		return len(strings.TrimRight(until(m.rest, blanks+`"`), `\`))
	}
	head := first(m.rest, maxWord)
	length := unquotedLength(head)
	v := head[:length]
	// A structure as printed by Go or JSON, or a shell substitution.
	structures := []string{"{", "[", "&{", "map[", "=", "$(", "${"}
	if isHarmless(m.lead, v) || slices.ContainsFunc(structures, func(start string) bool { return strings.HasPrefix(v, start) }) {
		return 0
	}
	isPassword := strings.HasPrefix(strings.ToLower(m.lead), "pass")
	if strings.Contains(m.lead, "=") || looksSecret(v) || (isPassword && (length == maxWord || strings.TrimLeft(m.rest[length:], blanks) == "")) {
		return unquotedLength(m.rest)
	}
	return 0
}

// isHarmless reports whether a value that follows a keyword is not a secret: a word such as
// "none", the name of a Kubernetes Secret, or a number after a plural, such as "tokens".
func isHarmless(lead, v string) bool {
	// The word is empty if it begins with a letter that only folds to ASCII, such as U+017F.
	isPlural := strings.HasSuffix(strings.ToLower(lead[:run(lead, "_-")]), "s")
	return strictLead.MatchString(lead) || saysNothing(v) || isPlural && isNumber(v) ||
		strings.HasPrefix(strings.ToLower(lead), "secret") && len(v) <= 253 && objectName.MatchString(v) && !uuid.MatchString(v)
}

// closingQuote returns the end of the string that the last character of lead opens. The
// closing quote has as many backslashes before it as the opening quote.
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

// unquotedLength returns the length of a value without quotes. The value may contain any
// character that does not end it, as passwords do.
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
		// The closing bracket belongs to the value.
		v = strings.TrimRight(rest[:end], ",;.!")
	}
	return len(v)
}

// endsValue reports whether a value without quotes ends before rest.
func endsValue(rest string) bool {
	switch rest[0] {
	case ' ', '\t', '\r', '\n', '"', '\'', '`':
		return true
	case '\\':
		return len(rest) > 1 && strings.IndexByte(`nrt"'`, rest[1]) >= 0
	case ',', ';', '&':
		return fieldAfter.MatchString(rest[1:])
	}
	return false
}

// flagLength is the length function for "--token x".
func flagLength(m match) int {
	if strings.HasPrefix(m.rest, "-") {
		return 0
	}
	if m.strict {
		return len(until(m.rest, blanks))
	}
	v := first(m.rest, maxWord)
	if v = v[:unquotedLength(v)]; saysNothing(v) || !looksSecret(v) {
		return 0
	}
	return unquotedLength(m.rest)
}
