package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// The exit codes of kubectl coder template diff, which are the same as those of diff.
const (
	exitDiffers = 1
	exitTrouble = 2
)

// templateDiff is one run of the command.
type templateDiff struct {
	*Session
	version string
}

func newTemplateDiffCommand(s *Session) *cobra.Command {
	d := &templateDiff{Session: s}
	cmd := &cobra.Command{
		Use:   "diff NAME {DIR | FILE}",
		Short: "Compare the files of a template with a directory",
		Long: "Shows what a push of the directory would change in the template's files, with the program diff, or with the one that\n" +
			"KUBECTL_EXTERNAL_DIFF names, as kubectl diff does.\n\n" +
			"Exit codes: 0 the files are the same; 1 they differ; 2 they could not be compared.",
		Example:           "  kubectl coder template diff hello ./hello\n  kubectl coder template diff hello ./hello --version v3",
		Args:              nameAndPath("the directory or file to compare it with"),
		ValidArgsFunction: completeNameAndPath(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			same, err := d.do(cmd.Context(), args[0], args[1])
			var usage *cli.UsageError
			switch {
			case errors.As(err, &usage):
				return err
			case err != nil:
				return &cli.ExitError{Code: exitTrouble, Err: err}
			case !same:
				return &cli.ExitError{Code: exitDiffers}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&d.version, "version", "", "the name or UUID of the version to compare with")
	completeVersion(s, cmd)
	return cmd
}

func (d *templateDiff) do(ctx context.Context, text, path string) (same bool, err error) {
	name, err := templateName(text)
	if err != nil {
		return false, err
	}
	local, err := readTemplateFiles(path)
	if err != nil {
		return false, err
	}
	cluster, err := d.Cluster()
	if err != nil {
		return false, err
	}
	tmpl, err := cluster.Template(ctx, name)
	if err != nil {
		return false, err
	}
	remote, err := downloadTemplate(ctx, cluster, tmpl, d.version)
	if err != nil {
		return false, err
	}
	return d.compare(ctx, remote, local)
}

// compare shows the difference between two directories named live and local.
func (d *templateDiff) compare(ctx context.Context, live, local templateFiles) (same bool, err error) {
	if live.equal(local) {
		return true, nil
	}
	directory, err := os.MkdirTemp("", "kubectl-coder-diff-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	for name, content := range map[string]templateFiles{"live": live, "local": local} {
		if err := content.write(filepath.Join(directory, name)); err != nil {
			return false, err
		}
		if err := content.age(filepath.Join(directory, name)); err != nil {
			return false, err
		}
	}
	command := diffCommand(os.Getenv(externalDiff))
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], "live", "local")...) //nolint:gosec // The user's own choice of a program.
	cmd.Dir, cmd.Stderr = directory, d.ErrOut
	err = d.show(cmd)
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) && exit.ExitCode() == exitDiffers {
		return false, nil
	}
	return false, fmt.Errorf("the files differ, but %s could not show how: %w", command[0], err)
}

// show runs the program and removes control characters from its output on a terminal. A program
// that the user configured writes directly to the terminal, so that it can use colors.
func (d *templateDiff) show(cmd *exec.Cmd) error {
	if !d.Screen || os.Getenv(externalDiff) != "" {
		cmd.Stdout = d.Out
		return cmd.Run()
	}
	var text bytes.Buffer
	cmd.Stdout = &text
	err := cmd.Run()
	_, failed := io.WriteString(d.Out, cli.Visible(text.String()))
	return errors.Join(err, failed)
}

// externalDiff is the environment variable with another program.
const externalDiff = "KUBECTL_EXTERNAL_DIFF"

// diffCommand returns the program with its options. The variable is parsed as kubectl does.
func diffCommand(external string) []string {
	if fields := strings.Fields(external); len(fields) > 0 {
		return fields
	}
	return []string{"diff", "-u", "-N", "-r"}
}

// age sets the same time on all files, so that the output does not depend on it.
func (f templateFiles) age(root string) error {
	epoch := time.Unix(0, 0)
	for name := range f {
		if err := os.Chtimes(filepath.Join(root, filepath.FromSlash(name)), epoch, epoch); err != nil {
			return err
		}
	}
	return nil
}
