package redaction

import (
	"regexp"
	"strings"
)

var (
	// blockBegin matches a line of YAML whose key is a keyword and whose value is a block
	// scalar.
	blockBegin = regexp.MustCompile(`(?i)(?:authorization|` + keyword + `)["']?[ \t]*:[ \t]+[|>][+-]?[0-9]?[+-]?[ \t]*(?:#.*)?$`)
	// lineStamp matches the timestamp that kube-apiserver adds to each line of a log.
	lineStamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) `)
)

// withoutBlocks removes YAML block scalars: all lines after the keyword with a deeper
// indentation.
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
		stamp := lineStamp.FindString(content)
		content = content[len(stamp):]
		indent := len(content) - len(strings.TrimLeft(content, " \t"))
		switch {
		case inside && strings.TrimSpace(content) == "":
		case inside && indent > depth:
			line = stamp + content[:indent] + Placeholder + lineEnd(line)
		default:
			inside = blockBegin.MatchString(content)
			// The keys of a list entry are as deep as the text after its dash.
			depth = len(content) - len(strings.TrimLeft(content, " \t-"))
		}
		out.WriteString(line)
	}
	return out.String()
}

func lineEnd(line string) string {
	if strings.HasSuffix(line, "\n") {
		return "\n"
	}
	return ""
}
