package terminal

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks a text between words into lines of at most so many columns, the indent
// included. The first line has no indent, because the caller wrote it. A word that is
// longer than a line stays whole. Without columns the text stays as it is.
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
