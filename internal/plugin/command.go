package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// Run parses and executes the command line, and returns the exit code of the process.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	return execute(ctx, NewSession(streams), args)
}

// execute returns 130 for an interrupted command, as a shell does for a process that Ctrl-C ended.
// This includes commands that run until they are interrupted.
func execute(ctx context.Context, s *Session, args []string) int {
	code := cli.Execute(ctx, NewCommand(s), args, s.IOStreams)
	if ctx.Err() != nil {
		return cli.ExitInterrupted
	}
	return code
}

// NewCommand returns the command kubectl coder with all subcommands.
func NewCommand(s *Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl-coder",
		Short: "See and operate Coder on Kubernetes",
		Long: "kubectl coder shows the state of Coder on this cluster and operates its workspaces and templates.\n" +
			"It uses the kubeconfig, context and namespace as kubectl does, and your permissions.",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl coder"},
		Version:     version.String(),
		// The completion command below also supports kubectl.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE:              helpOrUnknown(kubectlWords),
	}
	s.Kubeconfig.AddFlags(cmd.PersistentFlags())
	s.CompleteNamespaces(cmd, "namespace")
	for flag, names := range map[string]func(clientcmdapi.Config) []string{
		"context": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) },
		"cluster": func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) },
		"user":    func(c clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) },
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			config, err := s.Kubeconfig.Loader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return offer(names(config), nil, begun)
		})
	}
	cmd.AddCommand(newStatusCommand(s), newLogsCommand(s), newWhoamiCommand(s))
	cmd.AddCommand(newWorkspaceCommands(s)...)
	cmd.AddCommand(newExecCommand(s), newSSHCommand(s), newConfigSSHCommand(s),
		newCopyCommand(s), newPortForwardCommand(s))
	cmd.AddCommand(newOpenCommand(s), newLoginCommand(s), newTemplateCommand(s), newTokenCommand(s), newUpgradeCommand(s))
	cmd.AddCommand(newVersionCommand(s), newCompletionCommand(s), &cobra.Command{
		Use: "options", Short: "List the flags that all commands have",
		Long: "Lists the flags that all commands have, which select the cluster and the user as the flags of kubectl do.",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(s.Out, cmd.Root().PersistentFlags().FlagUsages())
			return err
		},
	})
	explainUnavailable(s, cmd)
	cmd.SetUsageFunc(printUsage)
	return cmd
}

// kubectlWords maps words that users may try to the kubectl command for them.
var kubectlWords = map[string]string{
	"get": "kubectl get coderworkspaces,codertemplates", "list": "kubectl get coderworkspaces", "ls": "kubectl get coderworkspaces",
	"describe": "kubectl describe coderworkspace NAME", "delete": "kubectl delete coderworkspace NAME, or kubectl coder orphan NAME if no provisioner can build it", "create": "kubectl apply -f FILE",
	"apply": "kubectl apply -f FILE", "edit": "kubectl edit coderworkspace NAME", "watch": "kubectl get coderworkspaces --watch",
}

// helpOrUnknown runs a command that only has subcommands. instead contains commands of other
// programs for words that users try.
func helpOrUnknown(instead map[string]string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		text := fmt.Sprintf("%q is not a command of %s", args[0], cmd.CommandPath())
		if other := instead[args[0]]; other != "" {
			return cli.Usage("%s; %s does that", text, other)
		}
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			text += "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return cli.Usage("%s", text)
	}
}

// arguments refuses fewer than least or more than most arguments with a usage error.
func arguments(least, most int, mistake string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return cli.Usage("%s", mistake)
		}
		return nil
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

// kubectlScript is the program that kubectl runs to complete the arguments of a plugin
// (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins).
const kubectlScript = `#!/usr/bin/env sh
# kubectl_complete-coder: what kubectl calls to complete the arguments of kubectl coder.
exec kubectl-coder __complete "$@"
`

func newCompletionCommand(s *Session) *cobra.Command {
	known := []string{"kubectl", "bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion {" + strings.Join(known, " | ") + "}",
		Short: "Print the shell completion for commands and names",
		Long: "Prints the program with which kubectl completes the arguments of kubectl coder, or the completion script of a shell.\n" +
			"Store the program as kubectl_complete-coder in the PATH; it works in shells in which the completion of kubectl itself\n" +
			"is set up. The script of a shell is for calls of kubectl-coder without kubectl.",
		Example:   "  kubectl coder completion kubectl >~/.local/bin/kubectl_complete-coder && chmod +x ~/.local/bin/kubectl_complete-coder\n  source <(kubectl coder completion bash)",
		ValidArgs: known,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch strings.Join(args, " ") {
			case "bash":
				return root.GenBashCompletionV2(s.Out, true)
			case "zsh":
				return root.GenZshCompletion(s.Out)
			case "fish":
				return root.GenFishCompletion(s.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(s.Out)
			case "kubectl":
				_, err := fmt.Fprint(s.Out, kubectlScript)
				return err
			}
			return cli.Usage("give one of %s", strings.Join(known, ", "))
		},
	}
}
