package app

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// helpColumns is the width of --help. It is fixed, so that the text does not depend on the
// terminal.
const helpColumns = 100

// Run runs the process: it parses the command line, runs until ctx is done or a component
// fails, and returns the exit code.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	options := NewOptions()
	return cli.Execute(ctx, newCommand(options, streams, func(ctx context.Context) error {
		return options.start(ctx, streams.ErrOut)
	}), args, streams)
}

func newCommand(options *Options, streams genericiooptions.IOStreams, start func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "coder-k8s",
		Short: "Run Coder on Kubernetes",
		Long: "coder-k8s runs Coder (coder.com) on Kubernetes: controllers for coder.com, an aggregated API\n" +
			"server for aggregation.coder.com, and an MCP server for AI tools.",
		Version:           version.String(),
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage("%q is neither a flag nor a command", args[0])
			}
			return nil
		},
	}

	sets := options.FlagSets()
	global := sets.FlagSet("global")
	global.BoolP("help", "h", false, "print this text")
	global.Bool("version", false, "print the version")
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd, sets) })
	cmd.AddCommand(subcommands(streams)...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := options.Validate(cmd.Flags().Changed); err != nil {
			return &cli.UsageError{Err: err}
		}
		return start(cmd.Context())
	}
	return cmd
}

// printHelp prints the flags by section, without the trailing spaces of the library.
func printHelp(cmd *cobra.Command, sets cliflag.NamedFlagSets) {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s\n\nUsage:\n  %s\n  %s [command] --help\n\nCommands:\n", cmd.Long, cmd.UseLine(), cmd.Name())
	for _, command := range cmd.Commands() {
		if !command.IsAvailableCommand() {
			continue
		}
		fmt.Fprintf(&text, "  %-15s %s\n", command.Name(), command.Short)
	}
	cliflag.PrintSections(&text, sets, helpColumns)
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(line, " \n"))
	}
}
