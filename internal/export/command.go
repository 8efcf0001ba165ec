package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// options are the flags of the command.
type options struct {
	kube           *cli.Kubeconfig
	streams        genericiooptions.IOStreams
	allNamespaces  bool
	controlPlane   string
	url, tokenFile string
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
			"organizations and users. It asks the aggregated API of the cluster, or with --url a Coder itself.\n" +
			"With --users it prints the users as CoderUser too, without their passwords.\n\n" +
			"Secret values are never exported. What was left out is named on standard error.\n" +
			"Exit code: 0 all was exported, 1 nothing was, 2 the command line is wrong, 3 something was left out.",
		Example: "  coder-k8s export -n coder -o manifests/\n" +
			"  coder-k8s export --url https://coder.example.com --token-file token -n coder --templates",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "export those of all namespaces")
	flags.StringVar(&o.controlPlane, "control-plane", "", "export only those of this CoderControlPlane")
	flags.StringVar(&o.url, "url", "", "export from the Coder at this URL, and not from the cluster")
	flags.StringVar(&o.tokenFile, "token-file", "", "the file with the session token for --url; use a token of an owner to export everything")
	flags.BoolVar(&o.kinds.templates, "templates", false, "export templates (default: templates and workspaces)")
	flags.BoolVar(&o.kinds.workspaces, "workspaces", false, "export workspaces (default: templates and workspaces)")
	flags.BoolVar(&o.kinds.users, "users", false, "export users; needs the permission to list coderusers, or a token of an administrator")
	flags.StringSliceVar(&o.owners, "owner", nil, "export only workspaces of these users")
	flags.StringVarP(&o.output, "output", "o", "-", "the directory to write to; - is standard output")
	flags.StringVar(&o.report, "report", "", "also write the report, with what was left out and notes, to this file")
	o.kube.AddFlags(flags)
	return cmd
}

func (o *options) validate() error {
	switch {
	case (o.url == "") != (o.tokenFile == ""):
		return cli.Usage("--url and --token-file must be set together")
	case o.url != "" && (o.allNamespaces || o.controlPlane != ""):
		return cli.Usage("--url exports from one Coder directly, so --all-namespaces and --control-plane cannot be used with it")
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

// source reads the objects of these kinds.
type source interface {
	read(ctx context.Context, r *report) (found, error)
}

func (o *options) source() (source, error) {
	if o.url != "" {
		token, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading --token-file: %w", err)
		}
		if strings.TrimSpace(string(token)) == "" {
			return nil, fmt.Errorf("--token-file %s is empty; write a session token of Coder into it (coder tokens create)", o.tokenFile)
		}
		client, err := coderd.New(coderd.Config{URL: o.url, Token: strings.TrimSpace(string(token)), UserAgent: version.UserAgent()})
		if err != nil {
			return nil, fmt.Errorf("--url: %w", err)
		}
		return coder{client: client, namespace: o.kube.Flags.Context.Namespace, kinds: o.kinds}, nil
	}
	config, err := o.kube.Cluster(version.UserAgent())
	if err != nil {
		return nil, err
	}
	namespace := ""
	if !o.allNamespaces {
		if namespace, _, err = o.kube.Loader().Namespace(); err != nil {
			return nil, fmt.Errorf("finding the namespace: %w", err)
		}
	}
	return cluster{config: config, namespace: namespace, controlPlane: o.controlPlane, kinds: o.kinds}, nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	from, err := o.source()
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
