package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Exit codes of a process.
const (
	// ExitOK means that the command succeeded.
	ExitOK = 0
	// ExitFailure means that the command failed.
	ExitFailure = 1
	// ExitUsage means that the command line is invalid and nothing was done.
	ExitUsage = 2
	// ExitPartial means that a part, which was named, was left out, and the rest was done.
	ExitPartial = 3
	// ExitInterrupted means that a signal ended the command, as a shell reports Ctrl-C.
	ExitInterrupted = 130
)

// UsageError reports an invalid command line.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitError ends the process with an exit code: ExitPartial, with what was left out, or one of the
// command's own, which its help documents. If Err is nil, nothing is printed.
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

// Unwrap returns the wrapped error.
func (e *ExitError) Unwrap() error { return e.Err }

// InterruptedError reports what continues although the command was interrupted. It may be joined
// with errors from before the interruption, which Execute prints too.
type InterruptedError struct{ GoesOn string }

func (e *InterruptedError) Error() string { return "interrupted; " + e.GoesOn }

// Usage returns a UsageError.
func Usage(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// NoArguments returns a UsageError if there are arguments.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage("%q is one argument too many: this command takes none", args[0])
	}
	return nil
}

// Main runs a program with the arguments and the streams of the process, and returns its exit code.
// The first signal ends the context, and a second one the process.
func Main(run func(ctx context.Context, args []string, streams genericiooptions.IOStreams) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
}

// Execute runs the command and returns the exit code of the process. Every line of an error
// is prefixed with the name of the command.
func Execute(ctx context.Context, cmd *cobra.Command, args []string, streams genericiooptions.IOStreams) int {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &UsageError{Err: err} })
	// For nil, cobra uses the arguments of the process.
	cmd.SetArgs(append([]string{}, args...))
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	switch {
	case ctx.Err() == nil:
	case errors.As(err, new(*InterruptedError)):
		printError(cmd, err)
		return ExitInterrupted
	case errors.Is(err, ctx.Err()):
		// No error is printed for the user who interrupted the command.
		return ExitInterrupted
	}
	var exit *ExitError
	if errors.As(err, &exit) && exit.Err == nil {
		return exit.Code
	}
	printError(cmd, err)
	switch {
	case errors.As(err, new(*UsageError)):
		fmt.Fprintf(streams.ErrOut, "%s: --help lists all flags\n", cmd.DisplayName())
		return ExitUsage
	case exit != nil:
		return exit.Code
	}
	return ExitFailure
}

// printError prints the lines of an error. They may quote external text, which must not control the
// terminal.
func printError(cmd *cobra.Command, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.DisplayName(), Visible(line))
	}
}

// WriteBelow writes a file into a folder below a directory. It never writes outside of the
// directory, even if a symbolic link in it leads out of it. It creates missing folders. The
// name may come from an untrusted source; it returns an error if it is not a valid file
// name.
func WriteBelow(directory, folder, name string, text []byte, folderMode, fileMode fs.FileMode) error {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") || !filepath.IsLocal(name) {
		return fmt.Errorf("writing %q: this is not a file name", name)
	}
	if err := os.MkdirAll(directory, folderMode); err != nil {
		return err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(filepath.Clean(folder), folderMode); err != nil {
		return fmt.Errorf("making the folder %s in %s: %w", folder, directory, err)
	}
	if err := root.WriteFile(filepath.Join(folder, name), text, fileMode); err != nil {
		return fmt.Errorf("writing %s in %s: %w", filepath.Join(folder, name), directory, err)
	}
	return nil
}
