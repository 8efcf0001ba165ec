package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/cli/terminal"
)

// Exit codes of a process.
const (
	// ExitOK says that all was done.
	ExitOK = 0
	// ExitFailure says that it was not done.
	ExitFailure = 1
	// ExitUsage says that the command line is wrong and nothing was tried.
	ExitUsage = 2
	// ExitPartial says that something was left out, which was named, and the rest
	// was done.
	ExitPartial = 3
	// ExitInterrupted says that a signal ended it, as a shell reports Ctrl-C.
	ExitInterrupted = 130
)

// UsageError is a mistake on the command line.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap gives the mistake.
func (e *UsageError) Unwrap() error { return e.Err }

// PartialError tells what was left out by a command that did the rest.
type PartialError struct{ Err error }

func (e *PartialError) Error() string { return e.Err.Error() }

// Unwrap gives what was left out.
func (e *PartialError) Unwrap() error { return e.Err }

// ExitError ends the process with a code that means something else than the
// others, which the command's help explains. Without an error in it, all was said.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap gives what went wrong.
func (e *ExitError) Unwrap() error { return e.Err }

// InterruptedError says what goes on although the command was interrupted.
type InterruptedError struct{ GoesOn string }

func (e *InterruptedError) Error() string { return "interrupted; " + e.GoesOn }

// Usage makes a mistake on the command line.
func Usage(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// NoArguments refuses arguments with a sentence.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage("%q is one argument too many: this command takes none", args[0])
	}
	return nil
}

// Execute runs the command and returns the exit code of the process. Every line
// of an error begins with the name of the command.
func Execute(ctx context.Context, cmd *cobra.Command, args []string, streams genericiooptions.IOStreams) int {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{Err: err} })
	cmd.SetArgs(args)
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	if interrupted := (*InterruptedError)(nil); ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.As(err, &interrupted)) {
		// The user who interrupted it needs no error.
		if interrupted != nil {
			fmt.Fprintf(streams.ErrOut, "%s: %s\n", cmd.DisplayName(), terminal.Visible(interrupted.Error()))
		}
		return ExitInterrupted
	}
	var exit *ExitError
	if errors.As(err, &exit) && exit.Err == nil {
		return exit.Code
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		// An error quotes what others said, and that cannot operate a terminal.
		fmt.Fprintf(streams.ErrOut, "%s: %s\n", cmd.DisplayName(), terminal.Visible(line))
	}
	var usage *UsageError
	var partial *PartialError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(streams.ErrOut, "%s: --help lists all flags\n", cmd.DisplayName())
		return ExitUsage
	case errors.As(err, &partial):
		return ExitPartial
	case exit != nil:
		return exit.Code
	}
	return ExitFailure
}
