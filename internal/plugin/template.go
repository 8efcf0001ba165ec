package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// newTemplateCommand returns the command kubectl coder template with its subcommands push, pull and
// diff.
func newTemplateCommand(s *Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "template",
		Aliases: []string{"templates"},
		Short:   "Push, pull and compare the files of a template",
		Long: "Copies the files of a template from a directory to the cluster and back, and compares the two.\n" +
			"The end of a name is sufficient if it is unique: hello for coder.hello.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownCommand(cmd, args[0], nil)
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newTemplatePushCommand(s), newTemplatePullCommand(s), newTemplateDiffCommand(s))
	return cmd
}

// nameAndPath validates the two arguments that all subcommands have.
func nameAndPath(path string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 2 {
			return cli.Usage("give the name of the template, and %s", path)
		}
		return nil
	}
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

// completeVersion registers the completion of --version.
func completeVersion(s *Session, cmd *cobra.Command) {
	s.CompleteFlag(cmd, "version", func(ctx context.Context, c *Cluster, args []string) []string {
		if len(args) == 0 {
			return nil
		}
		name, err := templateName(args[0])
		if err != nil {
			return nil
		}
		tmpl, err := c.Template(ctx, name)
		if err != nil {
			return nil
		}
		return c.TemplateVersionNames(ctx, tmpl)
	})
}

// templateName returns the name without a kind prefix.
func templateName(text string) (string, error) {
	target, err := ParseTarget(text, "CoderTemplate")
	return target.Name, err
}

// downloadTemplate reads the files of a template version by its name or UUID. Without a version, it
// reads the files of the version that spec.files shows.
func downloadTemplate(ctx context.Context, c *Cluster, tmpl *aggregationv1alpha1.CoderTemplate, version string) (templateFiles, error) {
	query := map[string]string{}
	if version != "" {
		found, err := c.TemplateVersion(ctx, tmpl, version)
		if err != nil {
			return nil, err
		}
		query["version"] = found.ID
	}
	stream, err := c.Stream(ctx, tmpl.Namespace, "codertemplates", tmpl.Name, "files", query)
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

// uploadTemplate replaces all files of a template by an archive, and updates tmpl from the response.
func uploadTemplate(ctx context.Context, c *Cluster, tmpl *aggregationv1alpha1.CoderTemplate, archive []byte, dryRun bool) error {
	request := c.Kube.CoreV1().RESTClient().Verb(http.MethodPut).AbsPath("/apis/"+aggregationv1alpha1.GroupVersion.String()).
		Namespace(tmpl.Namespace).Resource("codertemplates").Name(tmpl.Name).SubResource("files").
		Param("fieldManager", fieldManager).SetHeader("Content-Type", "application/x-tar").Body(archive)
	if dryRun {
		request = request.Param("dryRun", "All")
	}
	text, err := request.Do(ctx).Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, tmpl); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// templatePull is one run of the command.
type templatePull struct {
	*Session
	version string
	force   bool
}

func newTemplatePullCommand(s *Session) *cobra.Command {
	p := &templatePull{Session: s}
	cmd := &cobra.Command{
		Use:               "pull NAME {DIR | -}",
		Short:             "Write the files of a template into a directory",
		Long:              "Writes the files of the template's newest version, or of another one, into a directory, which is created if it does not\nexist and must be empty. With - it writes a tar archive to standard output.",
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

func (p *templatePull) do(ctx context.Context, text, into string) error {
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
	found, err := downloadTemplate(ctx, cluster, tmpl, p.version)
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
