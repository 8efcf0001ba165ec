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
	"github.com/coder-k8s/coder-k8s/internal/controllers/backup"
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/provisioner"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/controllers/templatecheck"
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

// component is one part of the process, which the manager runs.
type component struct {
	name string
	// elected reports that only the elected leader may run it.
	elected bool
	// cached reports whether it reads control planes from the cache.
	cached func(*Options) bool
	// add adds the component to the manager and returns its readiness check. A nil check
	// means that the component needs none.
	add func(context.Context, *environment) (healthz.Checker, error)
}

// environment contains the dependencies of components.
type environment struct {
	options   *Options
	config    *rest.Config
	manager   manager.Manager
	namespace string
	metrics   *framework.Metrics
	// coderMetrics counts the requests of all components to Coder.
	coderMetrics *coderd.Metrics
	// tracing creates spans. It is nil if tracing is disabled.
	tracing *tracing.Provider
	// refused is called when Coder rejects the operator's token or is unreachable. It is
	// nil if the controllers do not run.
	refused func(controlPlane types.NamespacedName)
}

func always(*Options) bool { return true }
func never(*Options) bool  { return false }

// named adds the name of its component to the error of a runnable, so that the error of the
// process says which component failed.
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

// NeedLeaderElection returns false, so that every replica runs the component. Controllers
// are added to the manager without this type.
func (named) NeedLeaderElection() bool { return false }

func controllersComponent() component {
	return component{
		name:    controllersName,
		elected: true,
		cached:  always,
		// A replica that waits for the Lease is ready too, because it can take over.
		add: func(ctx context.Context, env *environment) (healthz.Checker, error) {
			return nil, env.addControllers(ctx)
		},
	}
}

// addControllers sets up all controllers with one shared Toolkit.
func (env *environment) addControllers(ctx context.Context) error {
	optional, err := framework.NewOptionalKinds(env.manager, nil)
	if err != nil {
		return err
	}
	kit, err := framework.New(env.manager, framework.Options{
		Optional: optional, Metrics: env.metrics, NewClient: env.newCoderClient, Tracing: env.tracing, Namespaces: env.options.WatchNamespaces,
		Cluster: resources.Cluster{
			ClusterDomain: env.options.ClusterDomain, OperatorNamespace: env.namespace, PodIPv6: podIPv6(os.Getenv), OperatorImage: os.Getenv(podImageEnv),
		},
	})
	if err != nil {
		return err
	}
	controlPlanes := controlplane.New(kit)
	env.refused = controlPlanes.Refused
	coders := connections.NewDynamic(env.manager.GetClient(), env.manager.GetAPIReader(), connections.Options{
		Namespaces: env.options.WatchNamespaces, OnUnauthorized: env.refused, OnUnreachable: env.refused, NewClient: env.newCoderClient,
	})
	for _, controller := range []interface {
		SetupWithManager(ctx context.Context, mgr manager.Manager) error
	}{
		controlPlanes, provisioner.New(kit, env.refused), workspaceproxy.New(kit, env.refused),
		templatecheck.New(kit, coders),
		backup.New(kit), backup.NewScheduler(kit),
	} {
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

// connections returns the connections to the cluster's control planes, or to the single
// Coder deployment from the flags.
func (env *environment) connections() (apiserver.Connections, error) {
	o := env.options.Coder
	if o.static() {
		c, err := o.client(env.newCoderClient)
		if err != nil {
			return nil, err
		}
		return connections.NewStatic(o.Namespace, c), nil
	}
	return connections.NewDynamic(env.manager.GetClient(), env.manager.GetAPIReader(), connections.Options{
		Namespaces:     env.options.WatchNamespaces,
		Timeout:        o.RequestTimeout,
		OnUnauthorized: env.refused,
		OnUnreachable:  env.refused,
		NewClient:      env.newCoderClient,
	}), nil
}

// newCoderClient returns a client for a Coder, whose requests are counted in the metrics.
func (env *environment) newCoderClient(cfg coderd.Config) (*coderd.Client, error) {
	cfg.Observe, cfg.UserAgent = env.coderMetrics.Observe, version.UserAgent()
	return coderd.New(cfg)
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
				Options:       *env.options.MCP,
				RESTConfig:    env.config,
				Scheme:        env.manager.GetScheme(),
				Mapper:        env.manager.GetRESTMapper(),
				Namespace:     env.namespace,
				ClusterDomain: env.options.ClusterDomain,
				InCluster:     inCluster(os.Getenv),
				Version:       version.Version(),
				Registerer:    ctrlmetrics.Registry,
				Tracing:       env.tracing,
			})
			if err != nil {
				return nil, err
			}
			return server.Ready, env.manager.Add(named{server, name})
		},
	}
}
