package resources

import (
	"regexp"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// expression matches what Terraform evaluates, as opposed to a literal: an interpolation,
// or a reference outside of quotes. A reference must contain a dot or an index.
var expression = regexp.MustCompile(`\$\{[^}]*\}|(=\s*)[A-Za-z_][\w-]*(?:\.[\w*-]+|\[[^\]]*\])+`)

// redactSource redacts literal secrets in source code. On a line such as "password =
// var.password", toolset.CleanText would hide no secret and break the code. So a line is kept if
// all that looks like a secret in it is an expression.
func redactSource(source string) string {
	var out, pending strings.Builder
	flush := func() {
		// Adjacent lines are redacted together, because a secret can span lines.
		out.WriteString(toolset.CleanText(pending.String()))
		pending.Reset()
	}
	for line := range strings.Lines(source) {
		if isComputed(line) {
			flush()
			out.WriteString(line)
			continue
		}
		pending.WriteString(line)
	}
	flush()
	return out.String()
}

// isComputed reports whether a line looks like a secret only because of an expression in
// it.
func isComputed(line string) bool {
	literal := expression.ReplaceAllString(line, "$1")
	return literal != line && toolset.CleanText(literal) == literal && toolset.CleanText(line) != line
}
