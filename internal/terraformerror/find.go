package terraformerror

import (
	"iter"
	"regexp"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
	"github.com/coder-k8s/coder-k8s/internal/truncate"
)

const (
	// maxLines is the maximum number of lines of an error. Further lines belong to other errors.
	maxLines = 16
	// maxCause is the maximum length of Cause in bytes.
	maxCause = 512
	frame    = "╷│╵ \t"
)

// Find returns the lines of the first error in a log: the summary, the location and the detail. The
// log provides each line with its stage. Find returns nil if there is no error.
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

// quoted matches a line of the template with its number, and the value of an expression in it.
var quoted = regexp.MustCompile(`^(\d+: .*|├─+|\S+\.\S+ (is|will be) .*)$`)

// Cause returns the first error in the log as one line: the summary, the location and the detail.
// It is empty if the log contains no error.
func Cause(log iter.Seq2[string, string]) string {
	var kept []string
	for i, line := range Find(log) {
		if i == 0 || !quoted.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return truncate.String(truncate.OneLine(new(redaction.Redactor).Text(strings.Join(kept, "\n"))), maxCause)
}
