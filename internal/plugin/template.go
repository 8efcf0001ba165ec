package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

func newTemplateCommand(s *Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "template",
		Aliases: []string{"templates"},
		Short:   "Push, pull and compare the files of a template, promote versions and roll back",
		Long: "Copies the files of a template from a directory to the cluster and back, compares the two, and makes versions active.\n" +
			"The end of a name is sufficient if it is unique: hello for coder.hello.",
		RunE: helpOrUnknown(nil),
	}
	cmd.AddCommand(newTemplatePushCommand(s), newTemplatePullCommand(s), newTemplateDiffCommand(s),
		newTemplatePromoteCommand(s), newTemplateRollbackCommand(s), newTemplateHistoryCommand(s))
	return cmd
}

// completeNameAndPath completes the template, and then a path.
func completeNameAndPath(s *Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return s.CompleteNames("CoderTemplate")(cmd, args, begun)
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// downloadTemplate reads the files of a template version by its name or UUID. Without a version, it
// reads the files of the version that spec.files shows.
func downloadTemplate(ctx context.Context, c *Cluster, tmpl *aggregationv1alpha1.CoderTemplate, version string) (templateFiles, error) {
	if version != "" {
		found, err := c.TemplateVersion(ctx, tmpl, version)
		if err != nil {
			return nil, err
		}
		version = found
	}
	stream, err := c.subresource(http.MethodGet, tmpl, "files", map[string]string{"version": version}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("the files of template %s: %w", tmpl.Name, err)
	}
	defer func() { _ = stream.Close() }()
	found, err := readTemplateArchive(stream)
	if err != nil {
		return nil, fmt.Errorf("the files of template %s: %w", tmpl.Name, err)
	}
	return found, nil
}

func newTemplatePullCommand(s *Session) *cobra.Command {
	var version string
	var force bool
	cmd := &cobra.Command{
		Use:               "pull NAME {DIR | -}",
		Short:             "Write the files of a template into a directory",
		Long:              "Writes the files of the template's newest version, or of another one, into a directory, which is created if it does not\nexist and must be empty. With - it writes a tar archive to standard output.",
		Example:           "  kubectl coder template pull hello ./hello\n  kubectl coder template pull hello - --version v3 | tar tv",
		Args:              arguments(2, 2, "give the name of the template, and the directory into which its files are written, or - for a tar archive"),
		ValidArgsFunction: completeNameAndPath(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, into := cmd.Context(), args[1]
			if into != "-" && !force {
				entries, err := os.ReadDir(into)
				if err != nil && !os.IsNotExist(err) {
					return cli.Usage("%v", err)
				}
				if len(entries) > 0 {
					return cli.Usage("%s is not empty: choose another directory, or add --force to write over files of the same names", into)
				}
			}
			cluster, tmpl, err := s.Template(ctx, args[0])
			if err != nil {
				return err
			}
			found, err := downloadTemplate(ctx, cluster, tmpl, version)
			if err != nil {
				return err
			}
			if into == "-" {
				archive, err := found.archive()
				if err != nil {
					return err
				}
				_, err = s.Out.Write(archive)
				return err
			}
			if err := found.write(into); err != nil {
				return err
			}
			fmt.Fprintf(s.ErrOut, "%d files of template %s are in %s\n", len(found), tmpl.Name, into)
			return nil
		},
	}
	cmd.Flags().StringVar(&version, "version", "", "the name or UUID of the version")
	s.CompleteVersions(cmd, "CoderTemplate")
	cmd.Flags().BoolVar(&force, "force", false, "write into a directory that is not empty, over files of the same names")
	return cmd
}

// The exit codes of kubectl coder template diff, which are the same as those of diff.
const (
	exitDiffers = 1
	exitTrouble = 2
)

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
		Args:              arguments(2, 2, "give the name of the template, and the directory or file to compare it with"),
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
	s.CompleteVersions(cmd, "CoderTemplate")
	return cmd
}

// do shows the difference between two directories named live and local.
func (d *templateDiff) do(ctx context.Context, text, path string) (same bool, err error) {
	local, err := readTemplateFiles(path)
	if err != nil {
		return false, err
	}
	cluster, tmpl, err := d.Template(ctx, text)
	if err != nil {
		return false, err
	}
	live, err := downloadTemplate(ctx, cluster, tmpl, d.version)
	if err != nil {
		return false, err
	}
	if live.equal(local) {
		return true, nil
	}
	directory, err := os.MkdirTemp("", "kubectl-coder-diff-")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	for name, content := range map[string]templateFiles{"live": live, "local": local} {
		root := filepath.Join(directory, name)
		if err := content.write(root); err != nil {
			return false, err
		}
		// With the same time on all files the output does not depend on it.
		for file := range content {
			if err := os.Chtimes(filepath.Join(root, filepath.FromSlash(file)), time.Unix(0, 0), time.Unix(0, 0)); err != nil {
				return false, err
			}
		}
	}
	command := []string{"diff", "-u", "-N", "-r"}
	// The variable is parsed as kubectl does.
	if fields := strings.Fields(os.Getenv(externalDiff)); len(fields) > 0 {
		command = fields
	}
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], "live", "local")...) //nolint:gosec // The user's own choice of a program.
	cmd.Dir, cmd.Stdout, cmd.Stderr = directory, d.Out, d.ErrOut
	if d.Screen && os.Getenv(externalDiff) == "" {
		// The files must not control the terminal. A program that the user configured may use colors.
		var text bytes.Buffer
		cmd.Stdout = &text
		err = cmd.Run()
		_, failed := io.WriteString(d.Out, cli.Visible(text.String()))
		err = errors.Join(err, failed)
	} else {
		err = cmd.Run()
	}
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) && exit.ExitCode() == exitDiffers {
		return false, nil
	}
	return false, fmt.Errorf("the files differ, but %s could not show how: %w", command[0], err)
}

// externalDiff is the environment variable with another program.
const externalDiff = "KUBECTL_EXTERNAL_DIFF"
