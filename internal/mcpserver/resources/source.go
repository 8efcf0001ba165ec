package resources

import (
	"regexp"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/text"
)

// expression is what Terraform computes, as opposed to what is written out: an
// interpolation, or a reference outside of quotes. A reference without a point is
// no reference.
var expression = regexp.MustCompile(`\$\{[^}]*\}|(=\s*)[A-Za-z_][\w-]*(?:\.[\w*-]+|\[[^\]]*\])+`)

// redactSource takes literal secrets out of source code. What text.Clean makes of
// "password = var.password" would hide nothing and break the code, so a line stays
// as it is where all that looks secret in it is computed.
func redactSource(source string) string {
	var out, pending strings.Builder
	flush := func() {
		// Several lines together, because some secrets have more than one.
		out.WriteString(text.Clean(pending.String()))
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

// isComputed says that a line looks secret only where it computes something.
func isComputed(line string) bool {
	literal := expression.ReplaceAllString(line, "$1")
	return literal != line && text.Clean(literal) == literal && text.Clean(line) != line
}
