package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/monitoring/buildinfo"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

const (
	leaderElectionID = "coder-k8s-controller.coder.com"
	// gracePeriod is how long the components have to end.
	gracePeriod = 9 * time.Second
	// cacheWait bounds how long one readiness probe waits for the caches.
	cacheWait = 2 * time.Second
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		gatewayv1.Install,
		monitoringv1.AddToScheme,
		apiregistrationv1.AddToScheme,
		coderv1alpha1.AddToScheme,
		aggregationv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("bug: building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// restConfig finds the cluster. The API server's own fairness limits the process;
// client-go's limit would only add to it.
func restConfig(kubeconfig string) (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	} else {
		cfg, err = ctrl.GetConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w; give --kubeconfig or set KUBECONFIG", err)
	}
	cfg.QPS, cfg.Burst = -1, 0
	cfg.UserAgent = version.UserAgent()
	return cfg, nil
}

// newManager makes the manager. controllers says whether it will run those, which
// are what leader election and most of the cache are for.
func (o *Options) newManager(cfg *rest.Config, scheme *runtime.Scheme, namespace string, controllers bool) (manager.Manager, error) {
	certificate, err := o.Metrics.certificate(cfg, namespace)
	if err != nil {
		return nil, err
	}
	if o.LeaderElection.Namespace != "" {
		namespace = o.LeaderElection.Namespace
	}
	var cached cache.Options
	if controllers {
		// Nobody else reads the objects that workloads consist of.
		cached.ByObject = workload.CacheByObject()
	}
	for _, watched := range o.WatchNamespaces {
		if cached.DefaultNamespaces == nil {
			cached.DefaultNamespaces = map[string]cache.Config{}
		}
		cached.DefaultNamespaces[watched] = cache.Config{}
	}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme,
		Cache:  cached,
		Client: client.Options{Cache: &client.CacheOptions{
			// They are large, many or secret, and read by name when they are needed.
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &batchv1.Job{}},
		}},
		HealthProbeBindAddress:        o.HealthProbeBindAddress,
		Metrics:                       o.Metrics.server(certificate),
		LeaderElection:                controllers && o.LeaderElection.Enabled,
		LeaderElectionID:              leaderElectionID,
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       ptr.To(gracePeriod),
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := buildinfo.Register(ctrlmetrics.Registry); err != nil {
		return nil, err
	}
	if certificate == nil {
		return mgr, nil
	}
	return mgr, mgr.Add(certificate)
}

// cacheWarmer fills the cache of control planes as soon as the process starts and
// tells whether that is done. Without it the first request would have to wait.
type cacheWarmer struct {
	cache  cache.Cache
	warm   []client.Object
	filled atomic.Bool
}

// NeedLeaderElection lets every replica fill its cache.
func (*cacheWarmer) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (w *cacheWarmer) Start(ctx context.Context) error {
	for _, obj := range w.warm {
		if _, err := w.cache.GetInformer(ctx, obj); err != nil && ctx.Err() == nil {
			return fmt.Errorf("filling the cache of %T: %w; are the custom resource definitions of coder-k8s installed?", obj, err)
		}
	}
	w.filled.Store(true)
	<-ctx.Done()
	return nil
}

// Ready implements healthz.Checker.
func (w *cacheWarmer) Ready(r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), cacheWait)
	defer cancel()
	if !w.filled.Load() || !w.cache.WaitForCacheSync(ctx) {
		return errors.New("the caches are not filled yet")
	}
	return nil
}

// addProbes serves /healthz and /readyz. The first says that the process answers;
// the second that every component does what it is for.
func addProbes(mgr manager.Manager, ready map[string]healthz.Checker) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding the health probe: %w", err)
	}
	for name, check := range ready {
		if err := mgr.AddReadyzCheck(name, check); err != nil {
			return fmt.Errorf("adding the readiness probe of %s: %w", name, err)
		}
	}
	return nil
}
