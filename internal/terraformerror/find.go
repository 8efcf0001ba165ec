package terraformerror

import (
	"iter"
	"regexp"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

const (
	// maxLines is how many lines of an error are read: the rest is about other errors.
	maxLines = 16
	// maxCause limits the text of Cause.
	maxCause = 512
	frame    = "╷│╵ \t"
)

// Find returns the first error in the lines of a log, each given with its stage: the
// summary, the place and the detail. It returns nil if there is none.
func Find(log iter.Seq2[string, string]) []string {
	var block []string
	stage := ""
	for of, line := range log {
		line = strings.TrimRight(strings.TrimLeft(line, frame), " \t\r\n")
		isError := strings.HasPrefix(line, "Error: ")
		switch {
		case len(block) == 0 && !isError:
			continue
		case len(block) == 0:
			stage = of
		case isError, of != stage, len(block) == maxLines:
			return block
		}
		if line != "" {
			block = append(block, line)
		}
	}
	return block
}

// quoted is a line of the template with its number, or the value of an expression in it.
var quoted = regexp.MustCompile(`^(\d+: .*|├─+|\S+\.\S+ (is|will be) .*)$`)

// Cause returns what went wrong in one line: the summary, the place and the detail of the
// first error in the log. It is empty if the log has none.
func Cause(log iter.Seq2[string, string]) string {
	var kept []string
	for i, line := range Find(log) {
		if i == 0 || !quoted.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return truncate.String(truncate.OneLine(new(redaction.Redactor).Text(strings.Join(kept, "\n"))), maxCause)
}
