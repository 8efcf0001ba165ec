package installation

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// checkInterval is the interval of the checks while the command waits.
const checkInterval = time.Second

// checkFunc has the signature of Check.
type checkFunc func(context.Context, *rest.Config, Expectation) ([]Problem, error)

// checkOptions are the flags and the dependencies of the command.
type checkOptions struct {
	kube    *cli.Kubeconfig
	streams genericiooptions.IOStreams
	want    Expectation
	wait    time.Duration
	output  cli.Format
	check   checkFunc
}

// NewCheckCommand returns the command "coder-k8s check".
func NewCheckCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newCheckCommand(streams, Check)
}

// newCheckCommand is NewCheckCommand with the check, which tests replace.
func newCheckCommand(streams genericiooptions.IOStreams, check checkFunc) *cobra.Command {
	o := &checkOptions{kube: cli.NewKubeconfig(), streams: streams, check: check}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Report the problems of the installation",
		Long: "Check examines the installation with your own permissions: its CRDs, roles, Deployments, APIService\n" +
			"and policies. It fails if you may not read one of them, after it has printed the problems of the\n" +
			"others. It changes nothing.\n\n" +
			"Exit code: 0 no problems, 1 a problem was found or the check failed, 2 the command line is wrong.",
		Example: "  coder-k8s check\n" +
			"  coder-k8s check --wait=2m -o json",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.want.Controllers, o.want.AggregatedAPI = true, true
	flags := cmd.Flags()
	flags.StringVar(&o.want.Namespace, "operator-namespace", Namespace, "the namespace of the operator")
	flags.StringSliceVar(&o.want.WatchNamespaces, "watch-namespaces", nil, "the namespaces that the operator watches (default all)")
	flags.BoolVar(&o.want.MCP, "mcp", true, "whether an MCP server is expected")
	flags.DurationVar(&o.wait, "wait", 0, "how long to wait until there are no problems; 0 checks once")
	o.output.AddFlag(cmd, cli.JSON, cli.YAML)
	o.kube.AddFlags(flags)
	return cmd
}

// run checks until there are no problems or the wait time is over, and prints the last
// result.
func (o *checkOptions) run(ctx context.Context) error {
	if o.wait < 0 {
		return cli.Usage("--wait=%s is negative: give a duration, or 0 to check once", o.wait)
	}
	config, err := o.kube.Cluster(version.UserAgent())
	if err != nil {
		return err
	}
	end := time.Now().Add(o.wait)
	for {
		problems, err := o.check(ctx, config, o.want)
		if err == nil && len(problems) == 0 || !time.Now().Add(checkInterval).Before(end) {
			return o.tell(problems, err)
		}
		select {
		case <-ctx.Done():
			return o.tell(problems, ctx.Err())
		case <-time.After(checkInterval):
		}
	}
}

// tell prints the problems. It returns an error with their number, or err if the check
// failed.
func (o *checkOptions) tell(problems []Problem, err error) error {
	if o.output.Structured() {
		if err := o.output.Write(o.streams.Out, append([]Problem{}, problems...)); err != nil {
			return err
		}
	} else {
		for _, p := range problems {
			fmt.Fprintln(o.streams.Out, cli.Clean(p.String()))
		}
		if err == nil && len(problems) == 0 {
			fmt.Fprintf(o.streams.Out, "The installation in namespace %s has no problems.\n", o.want.Namespace)
		}
	}
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("the installation in namespace %s has problems: %d", o.want.Namespace, len(problems))
	}
	return nil
}
