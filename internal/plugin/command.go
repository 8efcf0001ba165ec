package plugin

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/access"
	"github.com/coder-k8s/coder-k8s/internal/plugin/logs"
	"github.com/coder-k8s/coder-k8s/internal/plugin/remote"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
	"github.com/coder-k8s/coder-k8s/internal/plugin/status"
	"github.com/coder-k8s/coder-k8s/internal/plugin/template"
	"github.com/coder-k8s/coder-k8s/internal/plugin/token"
	"github.com/coder-k8s/coder-k8s/internal/plugin/tree"
	"github.com/coder-k8s/coder-k8s/internal/plugin/whoami"
	"github.com/coder-k8s/coder-k8s/internal/plugin/workspace"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// Run parses and executes the command line, and returns the exit code of the process.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	return execute(ctx, session.New(streams), args)
}

// execute returns 130 for an interrupted command, as a shell does for a process that Ctrl-C ended.
// This includes commands that run until they are interrupted.
func execute(ctx context.Context, s *session.Session, args []string) int {
	code := cli.Execute(ctx, NewCommand(s), args, s.IOStreams)
	if ctx.Err() != nil {
		return cli.ExitInterrupted
	}
	return code
}

// NewCommand returns the command kubectl coder with all subcommands.
func NewCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubectl-coder",
		Short: "See and operate Coder on Kubernetes",
		Long: "kubectl coder shows how Coder is on this cluster and operates its workspaces and templates.\n" +
			"It takes the kubeconfig, context and namespace as kubectl does, and can do what you may do there.",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl coder"},
		Version:     version.String(),
		// The completion command below also supports kubectl.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownCommand(cmd, args[0], kubectlWords())
			}
			return cmd.Help()
		},
	}
	s.Flags.AddFlags(cmd.PersistentFlags())
	s.CompleteFlags(cmd)
	cmd.AddCommand(status.NewCommand(s), tree.NewCommand(s), logs.NewCommand(s), whoami.NewCommand(s))
	cmd.AddCommand(workspace.Commands(s)...)
	cmd.AddCommand(remote.NewExecCommand(s), remote.NewSSHCommand(s), remote.NewConfigSSHCommand(s),
		remote.NewCopyCommand(s), remote.NewPortForwardCommand(s))
	cmd.AddCommand(access.NewOpenCommand(s), access.NewLoginCommand(s), template.NewCommand(s), token.NewCommand(s))
	cmd.AddCommand(newVersionCommand(s), newCompletionCommand(s), newOptionsCommand(s))
	explainUnavailable(s, cmd)
	cmd.SetUsageFunc(printUsage)
	return cmd
}
