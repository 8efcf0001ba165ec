package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cliflag "k8s.io/component-base/cli/flag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/bucket"
	"github.com/coder-k8s/coder-k8s/internal/cli"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/export"
	"github.com/coder-k8s/coder-k8s/internal/installation"
	"github.com/coder-k8s/coder-k8s/internal/migrate"
	"github.com/coder-k8s/coder-k8s/internal/supportbundle"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// helpColumns is the width of --help. It is fixed, so that the text does not depend on the
// terminal.
const helpColumns = 100

// Run runs the process: it parses the command line, runs until ctx is done or a component
// fails, and returns the exit code.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	options := NewOptions()
	return cli.Execute(ctx, newCommand(options, streams, func(ctx context.Context) error {
		return options.start(ctx, streams.ErrOut)
	}), args, streams)
}

func newCommand(options *Options, streams genericiooptions.IOStreams, start func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "coder-k8s",
		Short: "Run Coder on Kubernetes",
		Long: "coder-k8s runs Coder (coder.com) on Kubernetes: controllers for coder.com, an aggregated API\n" +
			"server for aggregation.coder.com, and an MCP server for AI tools.",
		Version:           version.String(),
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage("%q is neither a flag nor a command", args[0])
			}
			return nil
		},
	}

	sets := options.FlagSets()
	global := sets.FlagSet("global")
	global.BoolP("help", "h", false, "print this text")
	global.Bool("version", false, "print the version")
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(cmd, sets) })
	for _, command := range []*cobra.Command{
		installation.NewCheckCommand(streams),
		export.NewCommand(streams),
		migrate.NewCommand(streams),
		supportbundle.NewCommand(streams),
		bucket.NewCommand(),
	} {
		command.SetHelpFunc((&cobra.Command{}).HelpFunc())
		cmd.AddCommand(command)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := options.Validate(cmd.Flags().Changed); err != nil {
			return &cli.UsageError{Err: err}
		}
		return start(cmd.Context())
	}
	return cmd
}

// printHelp prints the flags by section, without the trailing spaces of the library.
func printHelp(cmd *cobra.Command, sets cliflag.NamedFlagSets) {
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s\n\nUsage:\n  %s\n  %s [command] --help\n\nCommands:\n", cmd.Long, cmd.UseLine(), cmd.Name())
	for _, command := range cmd.Commands() {
		if !command.IsAvailableCommand() {
			continue
		}
		fmt.Fprintf(&text, "  %-15s %s\n", command.Name(), command.Short)
	}
	cliflag.PrintSections(&text, sets, helpColumns)
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(line, " \n"))
	}
}

// patience is how long the process waits for its components to end.
const patience = 9500 * time.Millisecond

// start runs the mode until ctx is done or a component fails.
func (o *Options) start(ctx context.Context, logs io.Writer) error {
	logger, err := o.Log.setup(logs)
	if err != nil {
		return err
	}
	ctx, stop := later(ctrl.LoggerInto(ctx, logger), o.ShutdownDelay)
	defer stop()
	components, err := o.Mode.components()
	if err != nil {
		return err
	}
	traces, err := o.startTracing(ctx, logger)
	if err != nil {
		return err
	}
	mgr, err := o.assemble(ctx, components, traces)
	if err != nil {
		return err
	}
	logger.Info("Starting coder-k8s", "version", version.String(), "app", o.Mode)
	return runUntilDone(ctx, logger, patience, flushed(traces, logger, flushTime, mgr.Start))
}

func (o *Options) assemble(ctx context.Context, components []component, traces *tracing.Provider) (manager.Manager, error) {
	cfg, err := restConfig(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.Wrap(traces.Wrap)
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	elect := slices.ContainsFunc(components, func(c component) bool { return c.elected })
	env := &environment{options: o, config: cfg, namespace: podNamespace(os.Getenv, os.ReadFile), tracing: traces}
	if env.metrics, err = framework.NewMetrics(ctrlmetrics.Registry); err != nil {
		return nil, err
	}
	if env.coderMetrics, err = coderd.NewMetrics(ctrlmetrics.Registry); err != nil {
		return nil, err
	}
	check := env.newPreflight(components)
	if err := check.begin(ctx); err != nil {
		return nil, err
	}
	if env.manager, err = o.newManager(cfg, scheme, env.namespace, elect); err != nil {
		return nil, err
	}
	if err := check.attach(env); err != nil {
		return nil, fmt.Errorf("adding the check of the installation: %w", err)
	}
	warmer := &cacheWarmer{cache: env.manager.GetCache()}
	ready := map[string]healthz.Checker{"caches": warmer.Ready}
	for _, c := range components {
		if c.cached(o) {
			warmer.warm = []client.Object{&coderv1alpha1.CoderControlPlane{}}
		}
		check, err := c.add(env, ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if check != nil {
			ready[c.name] = check
		}
	}
	if err := env.manager.Add(warmer); err != nil {
		return nil, fmt.Errorf("adding the caches: %w", err)
	}
	// /healthz reports that the process responds, and /readyz that all components are ready.
	if err := env.manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health probe: %w", err)
	}
	for name, check := range ready {
		if err := env.manager.AddReadyzCheck(name, check); err != nil {
			return nil, fmt.Errorf("adding the readiness probe of %s: %w", name, err)
		}
	}
	return env.manager, nil
}

// later returns a context that is done some time after ctx. kube-proxy is notified of the
// end of a pod at the same time as the pod itself, and routes connections to the pod until
// then.
func later(ctx context.Context, delay time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(delay, cancel) })
	return out, cancel
}

// runUntilDone runs until ctx is done or run fails. If ctx is done, it returns nil even if
// the shutdown fails. If run does not return within patience, it returns anyway, so that
// the process ends before it is killed.
func runUntilDone(ctx context.Context, logger logr.Logger, patience time.Duration, run func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	var err error
	select {
	case err = <-ended:
		if ctx.Err() == nil {
			return err
		}
	case <-ctx.Done():
		logger.Info("Stopping coder-k8s")
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case err = <-ended:
		case <-timer.C:
			err = fmt.Errorf("not everything stopped within %s", patience)
		}
	}
	if err != nil {
		logger.Info("Stopped before everything had ended", "reason", err.Error())
		return nil
	}
	logger.Info("Stopped")
	return nil
}

// flushTime limits how long the shutdown waits for the collector.
const flushTime = 2 * time.Second

// startTracing returns the trace provider, or nil if tracing is disabled.
func (o *Options) startTracing(ctx context.Context, logger logr.Logger) (*tracing.Provider, error) {
	instance, err := os.Hostname()
	if err != nil {
		instance = "unknown"
	}
	return tracing.New(ctx, o.Tracing, tracing.Service{
		Name: "coder-k8s", Version: version.Version(), Instance: instance,
	}, logger.WithName("tracing"))
}

// flushed returns a function that calls run and then sends the pending spans, within
// atMost.
func flushed(provider *tracing.Provider, logger logr.Logger, atMost time.Duration, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := run(ctx)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
		defer cancel()
		if lost := provider.Shutdown(bounded); lost != nil {
			logger.Info("Some traces were not sent", "reason", lost.Error())
		}
		return err
	}
}
