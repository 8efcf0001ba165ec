package uninstall

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
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

// options are the flags and the dependencies of the command.
type options struct {
	kube    *genericclioptions.ConfigFlags
	streams genericiooptions.IOStreams
	clock   clock.WithTicker

	controlPlanes     string
	watchNamespaces   []string
	controlPlanesOnly bool
	keepDefinitions   bool
	dryRun, yes       bool
	timeout           time.Duration
}

// NewCommand returns the command "coder-k8s uninstall".
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{kube: genericclioptions.NewConfigFlags(true), streams: streams, clock: clock.RealClock{}, timeout: defaultTimeout}
	cmd := &cobra.Command{
		Use:   "uninstall --control-planes=keep|remove",
		Short: "Take coder-k8s out of a cluster, and keep or remove its Coders",
		Long: "Uninstall takes coder-k8s out of a cluster: the operator, the aggregated API, rights, policy,\n" +
			"definitions and the namespace. It can be run again where it was interrupted, and where part of it\n" +
			"is gone already. It touches nothing that is not coder-k8s's.\n\n" +
			"  --control-planes=keep    Coders go on running, with all that belongs to them. The objects that\n" +
			"                           described them are written to standard output: keep that file.\n" +
			"  --control-planes=remove  Coders, provisioners and proxies are removed, and what the operator made\n" +
			"                           in Coder is taken back. Databases and the pods of workspaces stay.\n\n" +
			"Exit code: 0 all was done, 1 it was not done, 2 the command line is wrong, 3 something stayed that\n" +
			"was named.",
		Example: "  coder-k8s uninstall --control-planes=remove --dry-run\n" +
			"  coder-k8s uninstall --control-planes=keep --yes >coders.yaml",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.controlPlanes, "control-planes", "", "what becomes of the Coders: keep or remove (required)")
	flags.BoolVar(&o.controlPlanesOnly, "control-planes-only", false,
		"leave the operator and its definitions to what installed them, for example Helm; with keep the operator is stopped")
	flags.BoolVar(&o.keepDefinitions, "keep-definitions", false,
		"with keep: leave the definitions and their objects too, so that the next installation goes on with them")
	flags.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil,
		"with --control-planes-only: the namespaces in which the operator worked, where its Deployment, which says them, may be gone")
	flags.BoolVar(&o.dryRun, "dry-run", false, "say what would be done, and do nothing")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "how long the operator may take to give back what it made in Coder; deletions in Kubernetes come on top, a minute each at most")
	o.kube.AddFlags(flags)
	flags.Lookup("namespace").Usage = "the namespace of the operator (default " + installation.Namespace + ")"
	return cmd
}

func (o *options) validate() error {
	switch {
	case o.controlPlanes != keep && o.controlPlanes != remove:
		return cli.Usage("--control-planes is %q: say whether Coders go on running (keep) or are removed (remove)", o.controlPlanes)
	case o.keepDefinitions && o.controlPlanes != keep:
		return cli.Usage("--keep-definitions goes with --control-planes=keep alone")
	case len(o.watchNamespaces) > 0 && !o.controlPlanesOnly:
		return cli.Usage("--watch-namespaces goes with --control-planes-only alone: without it the definitions go, and with them the objects in all namespaces")
	case o.timeout <= 0:
		return cli.Usage("--timeout is %s; give how long to wait, for example 5m", o.timeout)
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	config, err := cli.Cluster(o.kube, version.UserAgent())
	if err != nil {
		return err
	}
	u, err := o.uninstaller(config)
	if err != nil {
		return err
	}
	if err := u.look(ctx); err != nil {
		return err
	}
	if err := o.confirm(u.summary()); err != nil {
		return err
	}
	return u.run(ctx)
}

func (o *options) uninstaller(config *rest.Config) (*uninstaller, error) {
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	namespace := installation.Namespace
	if given := *o.kube.Namespace; given != "" {
		namespace = given
	}
	return &uninstaller{
		kube: kube, clock: o.clock, timeout: o.timeout, step: stepTimeout, namespace: namespace,
		watchNamespaces: o.watchNamespaces,
		keep:            o.controlPlanes == keep, controlPlanesOnly: o.controlPlanesOnly, keepDefinitions: o.keepDefinitions,
		dryRun: o.dryRun, manifests: o.streams.Out, progress: o.streams.ErrOut,
	}, nil
}

// confirm asks the user if standard input is a terminal. Otherwise --yes is required.
func (o *options) confirm(summary string) error {
	fmt.Fprintln(o.streams.ErrOut, summary)
	if o.yes || o.dryRun {
		return nil
	}
	if !cli.IsTerminal(o.streams.In) {
		return cli.Usage("nobody can be asked, because standard input is no terminal: say --yes, or look first with --dry-run")
	}
	fmt.Fprint(o.streams.ErrOut, "Go on? Type yes: ")
	answer, err := bufio.NewReader(o.streams.In).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return fmt.Errorf("nothing was done, because the answer was %q", strings.TrimSpace(answer))
	}
	return nil
}
