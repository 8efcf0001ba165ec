package plugin

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// kubectlWords maps words that users may try to the kubectl command for them.
func kubectlWords() map[string]string {
	return map[string]string{
		"get": "kubectl get coderworkspaces,codertemplates", "list": "kubectl get coderworkspaces", "ls": "kubectl get coderworkspaces",
		"describe": "kubectl describe coderworkspace NAME", "delete": "kubectl delete coderworkspace NAME", "create": "kubectl apply -f FILE",
		"apply": "kubectl apply -f FILE", "edit": "kubectl edit coderworkspace NAME", "watch": "kubectl get coderworkspaces --watch",
	}
}

// printUsage prints the usage of a command: its own flags first, and then only the most common of
// the global flags.
func printUsage(cmd *cobra.Command) error {
	var text strings.Builder
	text.WriteString("Usage:\n")
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "  %s COMMAND\n", cmd.CommandPath())
	} else {
		fmt.Fprintf(&text, "  %s\n", cmd.UseLine())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&text, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		text.WriteString("\nCommands:\n")
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() {
				fmt.Fprintf(&text, "  %-*s %s\n", child.NamePadding(), child.Name(), child.Short)
			}
		}
	}
	if own := cmd.LocalNonPersistentFlags(); own.HasAvailableFlags() {
		fmt.Fprintf(&text, "\nFlags:\n%s", own.FlagUsages())
	}
	common := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"namespace", "context", "kubeconfig"} {
		common.AddFlag(cmd.Root().PersistentFlags().Lookup(name))
	}
	fmt.Fprintf(&text, "\nFlags of all commands (kubectl coder options lists the rest):\n%s", common.FlagUsages())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "\n%s COMMAND --help explains a command.\n", cmd.CommandPath())
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), text.String())
	return err
}

// newOptionsCommand returns the command kubectl coder options.
func newOptionsCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "List the flags that all commands have",
		Long: "Lists the flags that all commands have, which choose the cluster and the user as those of kubectl do.",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(s.Out, cmd.Root().PersistentFlags().FlagUsages())
			return err
		},
	}
}
