package diagnosis

import (
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

// Limits for external text in a report, in bytes.
const (
	longestEvidence = 600
	longestSentence = 300
	longestMessage  = 250
)

// oneLine returns the beginning of an external text as one line.
func oneLine(words string, most int) string {
	return truncate.String(truncate.OneLine(toolset.CleanText(words)), most)
}

// evidence returns the end of an external text, in lines. The newest lines and the errors
// of a log are at its end.
func evidence(words string) string {
	return tail(strings.TrimSpace(toolset.CleanText(words)), longestEvidence)
}

// tail returns the end of a text that may be too long. If possible, it starts at the
// beginning of a line.
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
