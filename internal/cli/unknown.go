package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// suggestionDistance is the maximum edit distance between a suggestion and the typed word.
const suggestionDistance = 2

// UnknownCommand returns the error for an unknown command, with suggestions. instead
// contains commands of other programs for words that users try.
func UnknownCommand(cmd *cobra.Command, name string, instead map[string]string) error {
	text := fmt.Sprintf("%q is no command of %s", name, cmd.CommandPath())
	if other := instead[name]; other != "" {
		return Usage("%s; %s does that", text, other)
	}
	cmd.SuggestionsMinimumDistance = suggestionDistance
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usage("%s", text)
}
