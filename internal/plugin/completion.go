package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// kubectlScript is the program that kubectl runs to complete the arguments of a plugin
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins).
const kubectlScript = `#!/usr/bin/env sh
# kubectl_complete-coder: what kubectl calls to complete the arguments of kubectl coder.
exec kubectl-coder __complete "$@"
`

// newCompletionCommand returns the command kubectl coder completion.
func newCompletionCommand(s *session.Session) *cobra.Command {
	known := []string{"kubectl", "bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion {" + strings.Join(known, " | ") + "}",
		Short: "Print what a shell needs to complete commands and names",
		Long: "Prints the program by which kubectl, whose own completion your shell has to have, completes the arguments of\n" +
			"kubectl coder: it stands as kubectl_complete-coder in the PATH. For a shell, it prints the script that completes\n" +
			"the arguments of kubectl-coder where that is called by itself.",
		Example:   "  kubectl coder completion kubectl >~/.local/bin/kubectl_complete-coder && chmod +x ~/.local/bin/kubectl_complete-coder\n  source <(kubectl coder completion bash)",
		ValidArgs: known,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(known, args[0]) {
				return cli.Usage("for what? Give one of %s", strings.Join(known, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(s.Out, true)
			case "zsh":
				return root.GenZshCompletion(s.Out)
			case "fish":
				return root.GenFishCompletion(s.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(s.Out)
			}
			_, err := fmt.Fprint(s.Out, kubectlScript)
			return err
		},
	}
}
