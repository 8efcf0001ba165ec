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

// LogLines returns the lines that are not empty, without colours and times.
func LogLines(text string) []string {
	var lines []string
	for line := range strings.Lines(terminalColour.ReplaceAllString(text, "")) {
		if line = strings.TrimSpace(timestamp.ReplaceAllString(line, "")); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// LastLine returns the line in which a process that ended says why: its last error, or else
// the last line that it wrote.
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

// errorPrefix begins the line with which the command-line programs of Coder end.
const errorPrefix = "error: "
