package terminal

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text between words into lines of at most columns columns, including the
// indent. The first line is not indented, because the caller has printed the text before
// it. A word that is longer than a line is not broken. If columns is not larger than the
// indent, Wrap returns the text unchanged.
func Wrap(text string, columns int, indent string) string {
	if columns <= len(indent) {
		return text
	}
	var out strings.Builder
	used := len(indent)
	for i, word := range strings.Split(text, " ") {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+length > columns:
			out.WriteString("\n" + indent)
			used = len(indent)
		default:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(word)
		used += length
	}
	return out.String()
}
