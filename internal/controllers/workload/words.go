package workload

import (
	"regexp"
	"slices"
	"strings"
)

// lastLine is the line in which a process that ended says why: its error, or else
// the last one that it wrote.
func lastLine(text string) string {
	lines := LogLines(text)
	for _, line := range slices.Backward(lines) {
		if rest, found := strings.CutPrefix(line, "error: "); found {
			return rest
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

var (
	terminalColour = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	timestamp      = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?Z?\s+`)
)

// LogLines are the lines that are not empty, without colours and times.
func LogLines(text string) []string {
	var lines []string
	for line := range strings.Lines(terminalColour.ReplaceAllString(text, "")) {
		if line = strings.TrimSpace(timestamp.ReplaceAllString(line, "")); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// OneLine makes a sentence of a message of several lines.
func OneLine(message string) string {
	return strings.Join(strings.Fields(message), " ")
}
