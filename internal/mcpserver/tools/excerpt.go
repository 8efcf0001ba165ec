package tools

import (
	"unicode/utf8"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/text"
)

// maxExcerpt is how many bytes of a text that somebody else wrote stand in a
// field.
const maxExcerpt = 1000

// excerpt is the beginning of what somebody else wrote, fit to be shown.
func excerpt(s string) string {
	s = text.Clean(s)
	if len(s) <= maxExcerpt {
		return s
	}
	end := maxExcerpt
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
