package migrate

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// Outcome is the result of converting a value.
type Outcome string

// The outcomes.
const (
	// Mapped values are in the manifest.
	Mapped Outcome = "mapped"
	// Unneeded values have no effect here, or match the operator's default.
	Unneeded Outcome = "not needed"
	// Manual values need another way, which the note describes.
	Manual Outcome = "to do by hand"
	// Secret values were replaced by a reference to a Secret.
	Secret Outcome = "secret"
	// Unreadable values do not have the type that the chart expects, or do not belong to the chart.
	Unreadable Outcome = "cannot be read"
)

// Entry is the result for one value.
type Entry struct {
	Value string
	Where Position
	// Field is the field of the manifest, or empty.
	Field   string
	Outcome Outcome
	// Note is an explanation or instruction for the user.
	Note string
}

// Report is the report about one migration.
type Report struct {
	// Source describes the input.
	Source string
	// Object is the resulting object, for example CoderControlPlane coder/coder.
	Object  string
	Entries []Entry
	// Understood reports that at least one of the given values is a value of the chart.
	Understood bool
	// Namespace and Secret are the name of the Secret that the user must create before the manifest
	// works, and Keys the keys to which the manifest refers. Without keys it is not needed.
	Namespace, Secret string
	Keys              []string
	// Steps are the next steps, in order.
	Steps []string
}

// Of returns the entries with an outcome, in order.
func (r *Report) Of(outcome Outcome) []Entry {
	return slices.DeleteFunc(slices.Clone(r.Entries), func(entry Entry) bool { return entry.Outcome != outcome })
}

// Write writes the report as Markdown.
func (r *Report) Write(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\nfrom %s\n", r.Object, r.Source)
	sections := []struct {
		outcome Outcome
		heading string
	}{
		{Unreadable, "Cannot be read: omitted"},
		{Secret, "Secrets: omitted, create them first"},
		{Manual, "To do by hand"},
		{Mapped, "Mapped"},
		{Unneeded, "Not needed"},
	}
	for _, section := range sections {
		entries := r.Of(section.outcome)
		if len(entries) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\n## %s\n\n", section.heading)
		for _, entry := range entries {
			line := fmt.Sprintf("- %s: `%s`", entry.Where, entry.Value)
			if entry.Field != "" {
				line += fmt.Sprintf(" → `%s`", entry.Field)
			}
			if entry.Note != "" {
				line += ": " + entry.Note
			}
			// Names in values may contain terminal control sequences.
			text.WriteString(cli.Clean(line) + "\n")
		}
		if section.outcome == Secret {
			// The Secret is created from files, so that no value is in the shell's history.
			command := fmt.Sprintf("kubectl -n %s create secret generic %s", word(r.Namespace), word(r.Secret))
			for _, key := range r.Keys {
				command += " " + word("--from-file="+key)
			}
			text.WriteString("\nWrite each value, without a line break at its end, into a file of the name of its key. Then:\n\n```sh\n" + command + "\n```\n")
		}
	}
	if len(r.Steps) > 0 {
		text.WriteString("\n## Next\n\n")
		for i, step := range r.Steps {
			fmt.Fprintf(&text, "%d. %s\n", i+1, step)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// plainWord matches a word that a shell needs no quotes for.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./=-]+$`)

// word returns a text as one shell word, quoted if necessary.
func word(text string) string {
	if text = cli.Clean(text); plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
