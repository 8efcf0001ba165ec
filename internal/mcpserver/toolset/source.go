package toolset

import (
	"regexp"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

var (
	// expression matches what Terraform evaluates, as opposed to a literal: an interpolation,
	// or a reference after an equals sign. A reference must contain a dot or an index. A match
	// ends before what can begin another one, so that a line is searched only once.
	expression = regexp.MustCompile(`\$\{[^}$]*\}|=\s*[A-Za-z_][\w-]*(?:\.[\w*-]+|\[[^\]=]*\])+`)
	// heredoc matches the first line of a text that ends with the line in the group.
	heredoc = regexp.MustCompile(`<<-?([A-Za-z_][\w-]*)\s*$`)
)

// CleanSource is CleanText for the source code of a file. On a line such as
// "password = var.password", CleanText would hide no secret and break the code. So a
// line is kept if all that looks like a secret in it is an expression.
func CleanSource(path, source string) string {
	var out, pending strings.Builder
	flush := func() {
		// Adjacent lines are redacted together, because a secret can span lines.
		out.WriteString(CleanText(pending.String()))
		pending.Reset()
	}
	textEnd := ""
	for line := range strings.Lines(source) {
		isCode := strings.HasSuffix(path, ".tf") && textEnd == ""
		if start := heredoc.FindStringSubmatch(line); isCode && start != nil {
			textEnd = start[1]
		} else if strings.TrimSpace(line) == textEnd {
			textEnd = ""
		}
		if isComputed(line, isCode) {
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
func isComputed(line string, isCode bool) bool {
	literal := withoutExpressions(line, isCode)
	return literal != line && CleanText(literal) == literal && CleanText(line) != line
}

// withoutExpressions removes interpolations and, from code, references outside of quotes. It
// keeps those that contain a secret, for example "${PASSWORD:-hunter2}" or the dots of a token.
func withoutExpressions(line string, isCode bool) string {
	var out strings.Builder
	done, quotes := 0, 0
	for _, at := range expression.FindAllStringIndex(line, -1) {
		before, match := line[done:at[0]], line[at[0]:at[1]]
		quotes += strings.Count(before, `"`)
		out.WriteString(before)
		value := strings.TrimLeft(match, "= \t")
		isReference := len(value) < len(match)
		if isReference && (!isCode || quotes%2 > 0) || redaction.HoldsSecret(value) {
			out.WriteString(match)
		} else {
			out.WriteString(match[:len(match)-len(value)])
		}
		done = at[1]
	}
	return out.String() + line[done:]
}
