package redaction

import (
	"regexp"
	"strings"
	"sync"
)

// A private key in a log has many lines, each of which may begin with the time, and
// the beginning or the end of the log may cut it.
const (
	keyBegins = `-----BEGIN (?:[A-Z0-9]+ )*(?:PRIVATE KEY|KEY|MESSAGE|PARAMETERS)-----`
	keyEnds   = `-----END (?:[A-Z0-9]+ )*(?:PRIVATE KEY|KEY|MESSAGE|PARAMETERS)-----`
	// mostPrefixes is how many words a logger may put before each line.
	mostPrefixes = 2
	// leastKeyLine is the length of a full line of a key; the last one may be shorter.
	leastKeyLine = 16
)

// keyMarks are compiled once for the process: they never change.
var keyMarks = sync.OnceValue(func() (marks struct{ begin, end *regexp.Regexp }) {
	marks.begin, marks.end = regexp.MustCompile(keyBegins), regexp.MustCompile(keyEnds)
	return marks
})

// withoutKeys takes out the lines of private keys.
func withoutKeys(text string) string {
	lines := strings.SplitAfter(text, "\n")
	inside := false
	for i, line := range lines {
		begin, end := keyMarks().begin.FindStringIndex(line), keyMarks().end.FindStringIndex(line)
		switch {
		case begin != nil && end == nil:
			lines[i], inside = line[:begin[0]]+Placeholder+lineEnd(line), true
		case end != nil:
			if !inside && begin == nil {
				backwards(lines[:i])
			}
			if begin == nil {
				lines[i] = Placeholder + line[end[1]:]
			}
			inside = false
		case inside && ofKey(line, 0):
			lines[i] = Placeholder + lineEnd(line)
		default:
			inside = false
		}
	}
	return strings.Join(lines, "")
}

// backwards takes out what stands before the end of a key whose beginning is missing.
func backwards(lines []string) {
	least := 0
	for i := len(lines) - 1; i >= 0 && ofKey(lines[i], least); i-- {
		lines[i], least = Placeholder+lineEnd(lines[i]), leastKeyLine
	}
}

// ofKey says whether a line can be one of a key: a few words of which the last one is
// base64 of a length, or a header of PEM.
func ofKey(line string, least int) bool {
	words := strings.Fields(line)
	if len(words) > mostPrefixes+1 {
		return false
	}
	if len(words) == 0 {
		return true
	}
	last := words[len(words)-1]
	return len(last) >= least && strings.Trim(last, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=,:.-") == ""
}

func lineEnd(line string) string {
	if strings.HasSuffix(line, "\n") {
		return "\n"
	}
	return ""
}
