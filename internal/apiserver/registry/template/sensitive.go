package template

import (
	"fmt"
	"regexp"
	"strings"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

var (
	variableBlock = regexp.MustCompile(`(?m)^[ \t]*variable[ \t]+"([^"]+)"[ \t]*\{`)
	// sensitiveLine matches the argument, not in a comment or a text.
	sensitiveLine = regexp.MustCompile(`(?m)^[^#"/\n]*\bsensitive[ \t]*=[ \t]*true\b`)
)

// sensitiveValues returns a warning for each variable that the files declare as sensitive and whose value is in the spec.
func sensitiveValues(spec aggregationv1alpha1.CoderTemplateSpec) []string {
	sensitive := map[string]bool{}
	for name, text := range spec.Files {
		// Terraform reads the variables of the root only.
		if strings.HasSuffix(name, ".tf") && !strings.Contains(name, "/") {
			addSensitive(sensitive, text)
		}
	}
	var warnings []string
	for i, v := range spec.Variables {
		if v.Value != "" && sensitive[v.Name] {
			warnings = append(warnings, fmt.Sprintf("%s: the template declares variable %q as sensitive, and everyone who may read this object can read the value; "+
				"store it in a Secret, and set valueFrom.secretKeyRef", variablesPath.Index(i).Child("value"), v.Name))
		}
	}
	return warnings
}

// addSensitive adds the variables that a file declares as sensitive. A block ends at the latest where the next one begins,
// so each part of the text is read once.
func addSensitive(sensitive map[string]bool, text string) {
	blocks := variableBlock.FindAllStringSubmatchIndex(text, -1)
	for i, at := range blocks {
		end := len(text)
		if i+1 < len(blocks) {
			end = blocks[i+1][0]
		}
		if sensitiveLine.MatchString(block(text[at[1]:end])) {
			sensitive[text[at[2]:at[3]]] = true
		}
	}
}

// block returns the text up to the brace that ends a block. A brace in a text or a comment counts too, which shortens or
// lengthens the block: the result is only used for a warning.
func block(text string) string {
	depth := 1
	for i, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			return text[:i]
		}
	}
	return text
}
