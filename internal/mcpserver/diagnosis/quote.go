package diagnosis

import (
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/text"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// How many bytes of the words of others are told.
const (
	longestEvidence = 600
	longestSentence = 300
	longestMessage  = 250
)

// oneLine is the beginning of the words of others, in one line.
func oneLine(words string, most int) string {
	return truncate.String(truncate.OneLine(text.Clean(words)), most)
}

// evidence is the end of the words of others, line by line: what is newest in a
// log, and where its errors stand.
func evidence(words string) string {
	return tail(strings.TrimSpace(text.Clean(words)), longestEvidence)
}

// tail is the end of a text that may be too long, from the beginning of a line
// where that is possible.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const more = truncate.Ellipsis
	s = s[len(s)-most+len(more):]
	if _, lines, found := strings.Cut(s, "\n"); found && strings.TrimSpace(lines) != "" {
		s = lines
	}
	return more + strings.ToValidUTF8(s, "")
}
