package podproblem

import (
	"regexp"
	"slices"
	"strings"
)

var (
	terminalColour = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	timestamp      = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?Z?\s+`)
)

// LogLines returns the non-empty lines of a log without colours and timestamps.
func LogLines(text string) []string {
	var lines []string
	for line := range strings.Lines(terminalColour.ReplaceAllString(text, "")) {
		if line = strings.TrimSpace(timestamp.ReplaceAllString(line, "")); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// LastLine returns the line in which a process reports why it exited: its last error, or the last
// line of its output.
func LastLine(text string) string {
	lines := LogLines(text)
	for _, line := range slices.Backward(lines) {
		if rest, found := strings.CutPrefix(line, errorPrefix); found {
			return rest
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// errorPrefix is the prefix of the line with which Coder's command-line programs report an error.
const errorPrefix = "error: "
