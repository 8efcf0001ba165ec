package export

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// options are the flags of the command.
type options struct {
	kube           *cli.Kubeconfig
	streams        genericiooptions.IOStreams
	allNamespaces  bool
	controlPlane   string
	kinds          kinds
	owners         []string
	output, report string
}

// NewCommand returns the command "coder-k8s export".
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{kube: cli.NewKubeconfig(), streams: streams}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the workspaces, templates and users of a Coder as manifests",
		Long: "Export prints the templates and workspaces of a running Coder as CoderTemplate and CoderWorkspace\n" +
			"manifests, which apply to it without a change, and to another Coder that has the same\n" +
			"organizations and users. It asks the aggregated API of the cluster.\n" +
			"With --users it prints the users as CoderUser too, without their passwords.\n\n" +
			"Secret values are never exported. What was left out is named on standard error.\n" +
			"Exit code: 0 all was exported, 1 nothing was, 2 the command line is wrong, 3 something was left out.",
		Example: "  coder-k8s export -n coder -o manifests/",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "export those of all namespaces")
	flags.StringVar(&o.controlPlane, "control-plane", "", "export only those of this CoderControlPlane")
	flags.BoolVar(&o.kinds.templates, "templates", false, "export templates (default: templates and workspaces)")
	flags.BoolVar(&o.kinds.workspaces, "workspaces", false, "export workspaces (default: templates and workspaces)")
	flags.BoolVar(&o.kinds.users, "users", false, "export users; needs the permission to list coderusers")
	flags.StringSliceVar(&o.owners, "owner", nil, "export only workspaces of these users")
	flags.StringVarP(&o.output, "output", "o", "-", "the directory to write to; - is standard output")
	flags.StringVar(&o.report, "report", "", "also write the report, with what was left out and notes, to this file")
	o.kube.AddFlags(flags)
	return cmd
}

func (o *options) validate() error {
	switch {
	case o.output == "":
		return cli.Usage("--output is empty; give a directory, or - for standard output")
	case o.allNamespaces && o.kube.Flags.Context.Namespace != "":
		return cli.Usage("--namespace and --all-namespaces cannot be used together")
	}
	if o.kinds == (kinds{}) {
		o.kinds = kinds{templates: true, workspaces: true}
	}
	return nil
}

// kinds are the kinds to export.
type kinds struct{ templates, workspaces, users bool }

// needTemplates reports whether to read the templates. They say which parameters of a workspace are
// secret.
func (k kinds) needTemplates() bool { return k.templates || k.workspaces }

func (o *options) cluster() (cluster, error) {
	config, err := o.kube.Cluster(version.UserAgent())
	if err != nil {
		return cluster{}, err
	}
	namespace := ""
	if !o.allNamespaces {
		if namespace, _, err = o.kube.Loader().Namespace(); err != nil {
			return cluster{}, fmt.Errorf("finding the namespace: %w", err)
		}
	}
	return cluster{config: config, namespace: namespace, controlPlane: o.controlPlane, kinds: o.kinds}, nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	from, err := o.cluster()
	if err != nil {
		return err
	}
	r := &report{}
	all, err := from.read(ctx, r)
	if err != nil {
		return err
	}
	manifests := o.manifests(all, r)
	if err := o.write(manifests); err != nil {
		return err
	}
	fmt.Fprint(o.streams.ErrOut, r)
	if len(manifests) == 0 && len(r.leftOut) == 0 {
		fmt.Fprintln(o.streams.ErrOut, "There is nothing to export. Check that the namespace is correct, and that its control plane is ready.")
	}
	return errors.Join(o.writeReport(r), r.err(len(manifests)))
}
