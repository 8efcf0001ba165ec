package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/metrics"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

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

// assemble creates the manager and adds the components to it.
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
	elect := false
	for _, c := range components {
		elect = elect || c.elected
	}
	env := &environment{options: o, config: cfg, namespace: ownNamespace(), tracing: traces}
	if env.metrics, err = metrics.New(ctrlmetrics.Registry); err != nil {
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
		check, err := c.add(ctx, env)
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
	return env.manager, addProbes(env.manager, ready)
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
			err = fmt.Errorf("something still runs after %s", patience)
		}
	}
	if err != nil {
		logger.Info("Stopped, not everything in time", "reason", err.Error())
		return nil
	}
	logger.Info("Stopped")
	return nil
}
