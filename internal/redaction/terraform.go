package redaction

import (
	"iter"
	"regexp"
	"strings"
)

const (
	// maxErrorLines is the maximum number of lines of an error. Further lines belong to other errors.
	maxErrorLines = 16
	// maxCause is the maximum length of Cause in bytes.
	maxCause   = 512
	errorFrame = "╷│╵ \t"
)

// TerraformError returns the lines of the first error of Terraform in the log of a build: the
// summary, the location and the detail. The log provides each line with its stage. It returns nil if
// there is no error. Coder itself reports only "terraform plan: exit status 1".
func TerraformError(log iter.Seq2[string, string]) []string {
	var block []string
	stage := ""
	for of, line := range log {
		line = strings.TrimRight(strings.TrimLeft(line, errorFrame), " \t\r\n")
		isError := strings.HasPrefix(line, "Error: ")
		switch {
		case len(block) == 0 && !isError:
			continue
		case len(block) == 0:
			stage = of
		case isError, of != stage, len(block) == maxErrorLines:
			return block
		}
		if line != "" {
			block = append(block, line)
		}
	}
	return block
}

// templateLine matches a line of the template with its number, and the value of an expression in it.
var templateLine = regexp.MustCompile(`^(\d+: .*|├─+|\S+\.\S+ (is|will be) .*)$`)

// TerraformCause returns the first error in the log as one line: the summary, the location and the
// detail. It is empty if the log contains no error.
func TerraformCause(log iter.Seq2[string, string]) string {
	var kept []string
	for i, line := range TerraformError(log) {
		if i == 0 || !templateLine.MatchString(line) {
			kept = append(kept, line)
		}
	}
	return Truncate(OneLine(new(Redactor).Text(strings.Join(kept, "\n"))), maxCause)
}
