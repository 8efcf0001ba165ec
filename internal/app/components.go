package app

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/coder-k8s/coder-k8s/internal/apiserver"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/metrics"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workspaceproxy"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

// The names of the components.
const (
	controllersName   = "controllers"
	aggregatedAPIName = "aggregated-api"
	mcpName           = "mcp"
)

// component is one part of the process. The manager runs it; add gives it to the
// manager.
type component struct {
	name string
	// elected says that only one replica at a time may run it.
	elected bool
	// cached says whether it reads control planes from the cache.
	cached func(*Options) bool
	// add gives the component to the manager, and returns how to know whether it
	// is ready. Nil means that running is enough.
	add func(context.Context, *environment) (healthz.Checker, error)
}

// environment is what components are made of.
type environment struct {
	options   *Options
	config    *rest.Config
	manager   manager.Manager
	namespace string
	metrics   *metrics.Metrics
	// tracing makes spans. It is nil where no collector is named.
	tracing *tracing.Provider
	// refused is told where Coder refuses the operator's token, or cannot do its
	// work. It is nil where the controllers do not run.
	refused func(controlPlane types.NamespacedName)
}

func always(*Options) bool { return true }
func never(*Options) bool  { return false }

// named puts the name of its component before the error of a runnable, so that
// the end of the process says who caused it.
type named struct {
	manager.Runnable
	name string
}

// Start implements manager.Runnable.
func (n named) Start(ctx context.Context) error {
	if err := n.Runnable.Start(ctx); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	return nil
}

// NeedLeaderElection lets every replica run the component. Controllers come to
// the manager on their own way.
func (named) NeedLeaderElection() bool { return false }

func controllersComponent() component {
	return component{
		name:    controllersName,
		elected: true,
		cached:  always,
		// A replica that waits to be elected is ready too: it is what takes over.
		add: func(ctx context.Context, env *environment) (healthz.Checker, error) {
			return nil, env.addControllers(ctx)
		},
	}
}

// addControllers sets up the controllers of all kinds over one Toolkit.
func (env *environment) addControllers(ctx context.Context) error {
	optional, err := workload.NewOptionalKinds(env.manager, nil)
	if err != nil {
		return err
	}
	kit, err := workload.New(env.manager, workload.Options{
		Optional: optional, Metrics: env.metrics, Tracing: env.tracing, ClusterDomain: env.options.ClusterDomain,
		OperatorNamespace: env.namespace, Namespaces: env.options.WatchNamespaces,
		PodIPv6: podIPv6(os.Getenv),
	})
	if err != nil {
		return err
	}
	if err := workload.SetUpIndexes(ctx, env.manager); err != nil {
		return err
	}
	controlPlanes, err := controlplane.New(env.manager, kit, controlplane.Options{})
	if err != nil {
		return err
	}
	env.refused = controlPlanes.Refused
	provisioners, err := provisioner.New(env.manager, kit, provisioner.Options{
		Refused: controlPlanes.Refused, UserAgent: version.UserAgent(),
	})
	if err != nil {
		return err
	}
	proxies, err := workspaceproxy.New(env.manager, kit, workspaceproxy.Options{
		Refused: controlPlanes.Refused, UserAgent: version.UserAgent(),
	})
	if err != nil {
		return err
	}
	for _, controller := range []interface {
		SetupWithManager(ctx context.Context, mgr manager.Manager) error
	}{controlPlanes, provisioners, proxies} {
		if err := controller.SetupWithManager(ctx, env.manager); err != nil {
			return err
		}
	}
	return env.manager.Add(optional)
}

func aggregatedAPIComponent() component {
	const name = aggregatedAPIName
	return component{
		name:   name,
		cached: func(o *Options) bool { return !o.Coder.static() },
		add: func(_ context.Context, env *environment) (healthz.Checker, error) {
			provider, err := env.connections()
			if err != nil {
				return nil, err
			}
			records.EnableWatchProgress()
			server, err := apiserver.New(apiserver.Config{
				Options:      env.options.AggregatedAPI,
				Connections:  provider,
				RESTConfig:   env.config,
				PodNamespace: env.namespace,
				Identity:     ownIdentity(),
				Metrics:      ctrlmetrics.Registry,
				Tracing:      env.tracing,
			})
			if err != nil {
				return nil, err
			}
			return server.Ready, env.manager.Add(named{server, name})
		},
	}
}

// connections are those of the cluster's control planes, or the one that was
// given on the command line.
func (env *environment) connections() (apiserver.Connections, error) {
	o := env.options.Coder
	if o.static() {
		c, err := o.client()
		if err != nil {
			return nil, err
		}
		return connections.NewStatic(o.Namespace, c), nil
	}
	return connections.NewDynamic(env.manager.GetClient(), env.manager.GetAPIReader(), connections.Options{
		Namespaces:     env.options.WatchNamespaces,
		Timeout:        o.RequestTimeout,
		UserAgent:      version.UserAgent(),
		OnUnauthorized: env.refused,
		OnUnreachable:  env.refused,
		NewClient: func(cfg coderd.Config) (*coderd.Client, error) {
			cfg.Observe = env.metrics.Observe
			return coderd.New(cfg)
		},
	}), nil
}

func mcpComponent() component {
	const name = mcpName
	return component{
		name:   name,
		cached: never,
		add: func(_ context.Context, env *environment) (healthz.Checker, error) {
			if env.options.MCP.Off() {
				return nil, nil
			}
			server, err := mcpserver.New(mcpserver.Config{
				Options:         *env.options.MCP,
				RESTConfig:      env.config,
				Scheme:          env.manager.GetScheme(),
				Mapper:          env.manager.GetRESTMapper(),
				Namespace:       env.namespace,
				ClusterDomain:   env.options.ClusterDomain,
				InCluster:       inCluster(os.Getenv),
				WatchNamespaces: env.options.WatchNamespaces,
				Version:         version.Version(),
				Registerer:      ctrlmetrics.Registry,
				Tracing:         env.tracing,
			})
			if err != nil {
				return nil, err
			}
			return server.Ready, env.manager.Add(named{server, name})
		},
	}
}
