package template

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/plugin/session"
)

// NewCommand returns the command kubectl coder template with its subcommands push, pull and diff.
func NewCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "template",
		Aliases: []string{"templates"},
		Short:   "Push, pull and compare the files of a template",
		Long: "Brings the files of a template from a directory to the cluster and back, and compares the two.\n" +
			"The end of a name will do where it is clear: hello for coder.hello.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UnknownCommand(cmd, args[0], nil)
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newPushCommand(s), newPullCommand(s), newDiffCommand(s))
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
func completeNameAndPath(s *session.Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return s.CompleteNames("CoderTemplate")(cmd, args, begun)
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// completeVersion registers the completion of --version.
func completeVersion(s *session.Session, cmd *cobra.Command) {
	s.CompleteFlag(cmd, "version", func(ctx context.Context, c *session.Cluster, args []string) []string {
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
	target, err := session.ParseTarget(text, "CoderTemplate")
	return target.Name, err
}
