package uninstall

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// The values of --control-planes.
const (
	keep   = "keep"
	remove = "remove"
)

// defaultTimeout is the time that the operator has to remove its objects in Coder. A
// provisioner alone may need ten minutes for its running jobs.
const defaultTimeout = 5 * time.Minute

// options are the flags of the command, of which most are fields of the uninstaller.
type options struct {
	kube          *cli.Kubeconfig
	streams       genericiooptions.IOStreams
	controlPlanes string
	yes           bool
	u             uninstaller
}

// NewCommand returns the command "coder-k8s uninstall".
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newCommand(streams, stepTimeout)
}

func newCommand(streams genericiooptions.IOStreams, step time.Duration) *cobra.Command {
	o := &options{kube: cli.NewKubeconfig(), streams: streams, u: uninstaller{
		step: step, manifests: streams.Out, progress: streams.ErrOut,
	}}
	cmd := &cobra.Command{
		Use:   "uninstall --control-planes=keep|remove",
		Short: "Uninstall coder-k8s from a cluster, and keep or remove its Coders",
		Long: "Uninstall removes coder-k8s from a cluster: the operator, the aggregated API, RBAC, policies,\n" +
			"CRDs and the namespace. It can be run again if it was interrupted, or if parts of the installation\n" +
			"no longer exist. It does not change objects of other software.\n\n" +
			"  --control-planes=keep    Coders keep running, with all their objects. The custom resources that\n" +
			"                           described them are written to standard output, and commands for their\n" +
			"                           Secrets to standard error: keep both. Another run prints only what is\n" +
			"                           left, so append to the files (>>).\n" +
			"  --control-planes=remove  Coders, provisioners and proxies are removed, and what the operator created\n" +
			"                           in Coder is removed too. Databases and the pods of workspaces stay.\n\n" +
			"Exit code: 0 complete, 1 failed, 2 the command line is wrong, 3 complete except for the objects that\n" +
			"are named.",
		Example: "  coder-k8s uninstall --control-planes=remove --dry-run\n" +
			"  coder-k8s uninstall --control-planes=keep --yes >>coders.yaml",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.controlPlanes, "control-planes", "", "whether to keep or to remove the Coders: keep or remove (required)")
	flags.BoolVar(&o.u.controlPlanesOnly, "control-planes-only", false,
		"do not remove the operator and its CRDs, because another tool such as Helm does; with keep the operator is stopped")
	flags.BoolVar(&o.u.keepDefinitions, "keep-definitions", false,
		"with keep: do not remove the CRDs and their objects either, so that the next installation uses them")
	flags.StringSliceVar(&o.u.watchNamespaces, "watch-namespaces", nil,
		"with --control-planes-only: the namespaces that the operator watched, if its Deployment, which lists them, may no longer exist")
	flags.BoolVar(&o.u.dryRun, "dry-run", false, "print what would be done, and change nothing")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	flags.DurationVar(&o.u.timeout, "timeout", defaultTimeout, "how long the operator may take to remove what it created in Coder; deletions in Kubernetes take additional time, at most a minute each without progress")
	o.kube.AddFlags(flags)
	flags.Lookup("namespace").Usage = "the namespace of the operator (default " + installation.Namespace + ")"
	return cmd
}

func (o *options) validate() error {
	switch {
	case o.controlPlanes != keep && o.controlPlanes != remove:
		return cli.Usage("--control-planes is %q: specify whether Coders keep running (keep) or are removed (remove)", o.controlPlanes)
	case o.u.keepDefinitions && o.controlPlanes != keep:
		return cli.Usage("--keep-definitions requires --control-planes=keep")
	case len(o.u.watchNamespaces) > 0 && !o.u.controlPlanesOnly:
		return cli.Usage("--watch-namespaces requires --control-planes-only: without it the CRDs are removed, and with them the objects in all namespaces")
	case o.u.timeout <= 0:
		return cli.Usage("--timeout is %s; give how long to wait, for example 5m", o.u.timeout)
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	config, err := o.kube.Cluster(version.UserAgent())
	if err != nil {
		return err
	}
	if o.u.kube, err = client.New(config, client.Options{}); err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	o.u.namespace = cmp.Or(o.kube.Flags.Context.Namespace, installation.Namespace)
	o.u.keep = o.controlPlanes == keep
	if err := o.u.look(ctx); err != nil {
		return err
	}
	if err := o.confirm(ctx, o.u.summary()); err != nil {
		return err
	}
	return o.u.run(ctx)
}

// confirm asks the user if standard input is a terminal. Otherwise --yes is required.
func (o *options) confirm(ctx context.Context, summary string) error {
	fmt.Fprintln(o.streams.ErrOut, summary)
	if o.yes || o.u.dryRun {
		return nil
	}
	if !cli.IsTerminal(o.streams.In) {
		return cli.Usage("this cannot be confirmed, because standard input is not a terminal: add --yes, or try --dry-run first")
	}
	return o.ask(ctx)
}

// ask returns an error unless the user types yes.
func (o *options) ask(ctx context.Context) error {
	answer, err := cli.Prompt(ctx, o.streams.In, o.streams.ErrOut, "Continue? Type yes: ")
	if err == nil && answer != "yes" {
		err = fmt.Errorf("nothing was done, because the answer was %q", answer)
	}
	return err
}
