package redaction

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ellipsis is the end of a text that was shortened.
const Ellipsis = "…"

// Truncate returns s as valid UTF-8 of at most limit bytes. A longer text is cut between two
// characters and ends with Ellipsis if there is room for it. The result shares no memory with a
// longer text.
func Truncate(s string, limit int) string {
	if len(s) <= limit && utf8.ValidString(s) {
		return s
	}
	if len(s) <= limit {
		// A replacement character may be longer than the byte that it replaces, so invalid bytes
		// are removed.
		return strings.ToValidUTF8(s, "")
	}
	end := ""
	if limit >= len(Ellipsis) {
		end = Ellipsis
	}
	kept := strings.ToValidUTF8(s[:max(0, limit-len(end))], "")
	return strings.Clone(kept) + end
}

// OneLine returns a text as one line: each sequence of white space and control characters becomes a
// single space.
func OneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
}
