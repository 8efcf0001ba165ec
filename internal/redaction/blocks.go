package redaction

import (
	"regexp"
	"strings"
	"sync"
)

// blockMarks are compiled once for the process: they never change. begin is the line
// of YAML that gives a word a value which stands in the lines below it; stamp is what
// kube-apiserver puts before each line of a log.
var blockMarks = sync.OnceValue(func() (marks struct{ begin, stamp *regexp.Regexp }) {
	marks.begin = regexp.MustCompile(`(?i)` + word + `s?["']?[ \t]*:[ \t]+[|>][+-]?[0-9]?[+-]?[ \t]*(?:#.*)?$`)
	marks.stamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) `)
	return marks
})

// withoutBlocks takes out the values that YAML writes as a block: all lines below the
// word that are deeper than it.
func withoutBlocks(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	inside, depth := false, 0
	for line := range strings.Lines(text) {
		if !inside && !strings.ContainsAny(line, "|>") {
			out.WriteString(line)
			continue
		}
		content := strings.TrimRight(line, "\r\n")
		stamp := blockMarks().stamp.FindString(content)
		content = content[len(stamp):]
		indent := len(content) - len(strings.TrimLeft(content, " \t"))
		switch {
		case inside && strings.TrimSpace(content) == "":
		case inside && indent > depth:
			line = stamp + content[:indent] + Placeholder + lineEnd(line)
		default:
			inside = blockMarks().begin.MatchString(content)
			// The entry of a list is as deep as what stands behind its dash.
			depth = len(content) - len(strings.TrimLeft(content, " \t-"))
		}
		out.WriteString(line)
	}
	return out.String()
}
