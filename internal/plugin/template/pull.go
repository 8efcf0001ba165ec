package template

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// pull is one run of the command.
type pull struct {
	*session.Session
	version string
	force   bool
}

func newPullCommand(s *session.Session) *cobra.Command {
	p := &pull{Session: s}
	cmd := &cobra.Command{
		Use:               "pull NAME {DIR | -}",
		Short:             "Write the files of a template into a directory",
		Long:              "Writes the files of the template's newest version, or of another one, into a directory, which is made if it is not\nthere and must be empty. With - it writes a tar archive to standard output.",
		Example:           "  kubectl coder template pull hello ./hello\n  kubectl coder template pull hello - --version v3 | tar tv",
		Args:              nameAndPath("the directory into which its files are written, or - for a tar archive"),
		RunE:              func(cmd *cobra.Command, args []string) error { return p.do(cmd.Context(), args[0], args[1]) },
		ValidArgsFunction: completeNameAndPath(s),
	}
	cmd.Flags().StringVar(&p.version, "version", "", "the name or UUID of the version")
	completeVersion(s, cmd)
	cmd.Flags().BoolVar(&p.force, "force", false, "write into a directory that is not empty, over files of the same names")
	return cmd
}

func (p *pull) do(ctx context.Context, text, into string) error {
	name, err := templateName(text)
	if err != nil {
		return err
	}
	if into != "-" && !p.force {
		entries, err := os.ReadDir(into)
		if err != nil && !os.IsNotExist(err) {
			return cli.Usage("%v", err)
		}
		if len(entries) > 0 {
			return cli.Usage("%s is not empty: choose another directory, or add --force to write over files of the same names", into)
		}
	}
	cluster, err := p.Cluster()
	if err != nil {
		return err
	}
	tmpl, err := cluster.Template(ctx, name)
	if err != nil {
		return err
	}
	found, err := download(ctx, cluster, tmpl, p.version)
	if err != nil {
		return err
	}
	if into == "-" {
		archive, err := found.archive()
		if err != nil {
			return err
		}
		_, err = p.Out.Write(archive)
		return err
	}
	if err := found.write(into); err != nil {
		return err
	}
	fmt.Fprintf(p.ErrOut, "%d files of template %s are in %s\n", len(found), tmpl.Name, into)
	return nil
}
