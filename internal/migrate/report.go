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

// NeededSecret is a Secret that the user must create before the manifest works.
type NeededSecret struct {
	Namespace, Name string
	// Keys are the keys that the manifest refers to.
	Keys []string
}

// Report is the report about one migration.
type Report struct {
	// Source describes the input.
	Source string
	// Object is the resulting object, for example CoderControlPlane coder/coder.
	Object  string
	Entries []Entry
	Secrets []NeededSecret
	// Steps are the next steps, in order.
	Steps []string
}

// Add adds an entry.
func (r *Report) Add(entry Entry) { r.Entries = append(r.Entries, entry) }

// Need adds a key of a Secret that the user must create.
func (r *Report) Need(namespace, name, key string) {
	at := slices.IndexFunc(r.Secrets, func(s NeededSecret) bool { return s.Name == name && s.Namespace == namespace })
	if at < 0 {
		r.Secrets = append(r.Secrets, NeededSecret{Namespace: namespace, Name: name})
		at = len(r.Secrets) - 1
	}
	if !slices.Contains(r.Secrets[at].Keys, key) {
		r.Secrets[at].Keys = append(r.Secrets[at].Keys, key)
	}
}

// Of returns the entries with an outcome, in order.
func (r *Report) Of(outcome Outcome) []Entry {
	var all []Entry
	for _, entry := range r.Entries {
		if entry.Outcome == outcome {
			all = append(all, entry)
		}
	}
	return all
}

// Write writes the report as Markdown.
func (r *Report) Write(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n\nfrom %s\n", r.Object, r.Source)
	sections := []struct {
		outcome Outcome
		heading string
	}{
		{Unreadable, "Cannot be read: left out"},
		{Secret, "Secrets: left out, make them first"},
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
			text.WriteString(line(entry))
		}
		if section.outcome == Secret {
			text.WriteString(r.commands())
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

// line formats one entry. Names in values may contain terminal control sequences, which are
// removed.
func line(entry Entry) string {
	text := fmt.Sprintf("- %s: `%s`", entry.Where, entry.Value)
	if entry.Field != "" {
		text += fmt.Sprintf(" → `%s`", entry.Field)
	}
	if entry.Note != "" {
		text += ": " + entry.Note
	}
	return cli.Clean(text) + "\n"
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

// commands returns commands that create the Secrets from files, so that no value is in the shell's
// history.
func (r *Report) commands() string {
	if len(r.Secrets) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("\nWrite each value, without a line break at its end, into a file of the name of its key. Then:\n\n```sh\n")
	for _, secret := range r.Secrets {
		fmt.Fprintf(&text, "kubectl -n %s create secret generic %s", word(secret.Namespace), word(secret.Name))
		for _, key := range secret.Keys {
			text.WriteString(" " + word("--from-file="+key))
		}
		text.WriteString("\n")
	}
	text.WriteString("```\n")
	return text.String()
}
