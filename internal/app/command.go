package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/coder-k8s/coder-k8s/internal/version"
)

// Exit codes of the process.
const (
	ExitOK      = 0
	ExitFailure = 1
	ExitUsage   = 2
)

// helpColumns is the width of --help. It is fixed, so that the text is the same
// everywhere.
const helpColumns = 100

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// Run is the whole process: it reads the command line, runs until ctx is done or
// something fails, and returns the exit code.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	options := NewOptions()
	return execute(ctx, newCommand(options, func(ctx context.Context) error {
		return options.start(ctx, stderr)
	}), args, stdout, stderr)
}

func execute(ctx context.Context, cmd *cobra.Command, args []string, stdout, stderr io.Writer) int {
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintln(stderr, "coder-k8s:", line)
	}
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintln(stderr, "coder-k8s: --help lists all flags")
		return ExitUsage
	}
	return ExitFailure
}

func newCommand(options *Options, start func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "coder-k8s",
		Short: "Run Coder on Kubernetes",
		Long: "coder-k8s runs Coder (coder.com) on Kubernetes: controllers for coder.com, an aggregated API\n" +
			"server for aggregation.coder.com, and an MCP server for AI tools.",
		Version:           version.String(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("%q is no flag, and there are no commands", args[0])}
			}
			return nil
		},
	}
	cmd.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	sets := options.FlagSets()
	global := sets.FlagSet("global")
	global.BoolP("help", "h", false, "print this text")
	global.Bool("version", false, "print the version")
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd, sets) })
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := options.Validate(cmd.Flags().Changed); err != nil {
			return &usageError{err}
		}
		return start(cmd.Context())
	}
	return cmd
}

// printHelp prints the flags by section, without the blanks that the library puts
// at the ends of lines.
func printHelp(cmd *cobra.Command, sets cliflag.NamedFlagSets) {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s\n\nUsage:\n  %s\n", cmd.Long, cmd.UseLine())
	cliflag.PrintSections(&text, sets, helpColumns)
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(line, " \n"))
	}
}
