package migrate

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/coder-k8s/coder-k8s/internal/cli"
)

// NewCommand returns the command "coder-k8s migrate".
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Move a Coder over from another way of running it",
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage("say from what: \"migrate helm\"")
		},
	}
	command.AddCommand(newHelmCommand(streams))
	return command
}

const helmLong = `Write the manifests that stand for a release of Coder's Helm charts.

The values come from the release in the cluster (--release), from files of values
(--values, in the order in which helm got them), or from the manifest of the Secret
in which Helm keeps the release (--release-secret).

The manifest goes to standard output or into a directory (--output), the report to
standard error or into a file (--report): what maps where, what does not and what to
do, with the lines of the values. Secrets are not copied: the report says which to
make.

Nothing in the cluster is changed, unless --take-over is given: then the running
Deployment, Service, ServiceAccount and Ingress are handed over to the operator as
they are. Where the pods would have to be replaced it says what differs and stops,
unless --allow-restart is given. --dry-run says all that and hands nothing over.

The exit code is 0 where all was done, 3 where values could not be read and the rest
was done, 2 for a wrong command line and 1 for any other failure.`

func newHelmCommand(streams genericiooptions.IOStreams) *cobra.Command {
	options := &options{streams: streams, config: genericclioptions.NewConfigFlags(true)}
	command := &cobra.Command{
		Use:   "helm (--release NAME | --values FILE | --release-secret FILE)",
		Short: "Write the manifests that stand for a Helm release, or take it over in place",
		Long:  helmLong,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage("%q is not understood; the release is named with --release", args[0])
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			return options.run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.release, "release", "", "name of the release in the cluster; with --values, only the name")
	flags.StringArrayVarP(&options.values, "values", "f", nil, "file of values; again for each further one, or - for standard input")
	flags.StringVar(&options.releaseSecret, "release-secret", "", "file with the manifest of the Secret in which Helm keeps the release")
	flags.StringVar(&options.chart, "chart", "", "coder or coder-provisioner; by default that of the release, or what the values look like")
	flags.StringVarP(&options.output, "output", "o", "-", "directory for the manifest, or - for standard output")
	flags.StringVar(&options.report, "report", "", "file for the report instead of standard error")
	flags.BoolVar(&options.takeOver, "take-over", false, "hand the running objects over to the operator; needs --release")
	flags.BoolVar(&options.dryRun, "dry-run", false, "with --take-over: say what would happen, and change nothing")
	flags.BoolVar(&options.allowRestart, "allow-restart", false, "with --take-over: go on where the pods have to be replaced")
	flags.DurationVar(&options.timeout, "timeout", defaultTimeout, "with --take-over: how long to wait until the operator has taken the objects over")
	options.config.AddFlags(flags)
	return command
}
