package controlplane

import (
	"regexp"
	"slices"
	"strings"
)

// What coderd writes while it cannot use its database. It tries for half a
// minute, with a warning each time, and then ends with an error.
var (
	retryingLine = regexp.MustCompile(`(?:ping|connect to) postgres: retrying`)
	// fieldError is the field of that warning, in a log for people and in JSON.
	fieldError = regexp.MustCompile(`(?:error=|"error":\s*)("(?:[^"\\]|\\.)*"|\S+)`)
	endLine    = regexp.MustCompile(`unable to connect after \d+ tries; last error: (.*)`)
	badURLLine = regexp.MustCompile(`(?:escaping postgres URL|parse postgres url|invalid postgres url)`)
	failedLine = regexp.MustCompile(`connect to postgres: (?:connect to postgres: )?(.*)`)
)

// databaseCause is what coderd says is wrong with its database, or empty where it
// says nothing of that. The last word counts.
func databaseCause(text string) string {
	for _, line := range slices.Backward(logLines(text)) {
		switch {
		case retryingLine.MatchString(line):
			return stableCause(unquoted(firstGroup(fieldError, line)), "no connection")
		case badURLLine.MatchString(line):
			return "the address of the database is not a URL that Coder can read"
		case endLine.MatchString(line):
			return stableCause(firstGroup(endLine, line), "no connection")
		case strings.Contains(line, "error:") && failedLine.MatchString(line):
			return stableCause(firstGroup(failedLine, line), "no connection")
		}
	}
	return ""
}

// What changes from try to try of the same failure.
var (
	connectionEnds = regexp.MustCompile(`(read|write) (tcp|udp) \S+->(\S+):`)
	resolver       = regexp.MustCompile(`lookup (\S+) on \S+:`)
)

func stableCause(cause, unknown string) string {
	cause = connectionEnds.ReplaceAllString(cause, "$1 $2 $3:")
	cause = resolver.ReplaceAllString(cause, "lookup $1:")
	if cause = oneLine(cause); cause == "" {
		return unknown
	}
	return cause
}

// lastLine is the line in which a coderd that ended says why: its error, or else
// the last one that it wrote.
func lastLine(text string) string {
	lines := logLines(text)
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

// logLines are the lines that are not empty, without colours and times.
func logLines(text string) []string {
	var lines []string
	for line := range strings.Lines(terminalColour.ReplaceAllString(text, "")) {
		if line = strings.TrimSpace(timestamp.ReplaceAllString(line, "")); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func firstGroup(pattern *regexp.Regexp, line string) string {
	groups := pattern.FindStringSubmatch(line)
	if len(groups) < 2 {
		return ""
	}
	return groups[1]
}

// unquoted takes the quotes off a logged value, and the backslashes that they
// made necessary.
func unquoted(value string) string {
	value = strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
	return strings.ReplaceAll(value, `\"`, `"`)
}
