package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// suggestionDistance is how many letters a suggestion may differ from what was typed.
const suggestionDistance = 2

// UnknownCommand is the error for a command that there is not, with the ones that may be
// meant. Instead has commands of other programs for words that people try.
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
