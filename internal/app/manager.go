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
	"sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	recordsv1alpha1 "github.com/coder-k8s/coder-k8s/api/records/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/kube/lease"
	"github.com/coder-k8s/coder-k8s/internal/version"
)

const (
	leaderElectionID = "coder-k8s-controller.coder.com"
	// leaseDuration is how long the Lease of a leader that died prevents others from leading.
	leaseDuration = 15 * time.Second
	// renewDeadline is how long the leader tries to renew the Lease if kube-apiserver fails.
	renewDeadline = 10 * time.Second
	// gracePeriod is the time that the components have to shut down.
	gracePeriod = 9 * time.Second
	// cacheWait limits how long a readiness probe waits for the caches.
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
		recordsv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("bug: building the scheme: %w", err)
		}
	}
	return scheme, nil
}

// restConfig loads the configuration for the cluster. It disables client-go's rate limit,
// because API Priority and Fairness limits the process on the server side.
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

// newManager creates the manager. controllers reports whether it will run the controllers,
// for which leader election and most of the cache are needed.
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
		// Only the controllers read the objects of workloads.
		cached = framework.CacheOptions()
	}
	for _, watched := range o.WatchNamespaces {
		if cached.DefaultNamespaces == nil {
			cached.DefaultNamespaces = map[string]cache.Config{}
		}
		cached.DefaultNamespaces[watched] = cache.Config{}
	}
	elect := controllers && o.LeaderElection.Enabled
	work, stop := context.WithCancel(context.Background())
	lost := make(chan error, 1)
	lock := &lease.Lock{Duration: leaseDuration, Lost: func(err error) {
		select {
		case lost <- err:
		default:
		}
		stop() // The requests of the controllers end too.
	}}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme,
		Cache:  cached,
		Client: client.Options{Cache: &client.CacheOptions{
			// These objects are large, numerous or secret, and are read by name when they
			// are needed.
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &batchv1.Job{}},
		}},
		BaseContext:                         func() context.Context { return work },
		HealthProbeBindAddress:              o.HealthProbeBindAddress,
		Metrics:                             o.Metrics.server(certificate),
		LeaderElection:                      elect,
		LeaderElectionID:                    leaderElectionID,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       ptr.To(leaseDuration),
		RenewDeadline:                       ptr.To(renewDeadline),
		GracefulShutdownTimeout:             ptr.To(gracePeriod),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	// The lock writes Events with a recorder of the manager, and is not used before the manager starts.
	if lock.Interface, err = leaderelection.NewResourceLock(rest.CopyConfig(cfg), mgr, leaderelection.Options{
		LeaderElection: elect, LeaderElectionID: leaderElectionID, LeaderElectionNamespace: namespace, RenewDeadline: renewDeadline,
	}); err != nil {
		return nil, fmt.Errorf("creating the lock of the leader election: %w", err)
	}
	mgr = &leading{Manager: mgr, lost: lost}
	if err := RegisterBuildInfo(ctrlmetrics.Registry); err != nil {
		return nil, err
	}
	if certificate == nil {
		return mgr, nil
	}
	return mgr, mgr.Add(certificate)
}

// leading is a manager that ends at once if the process has lost the Lease.
type leading struct {
	manager.Manager
	lost <-chan error
}

// Start implements manager.Manager. If the Lease is lost, it returns at once and does not wait for the
// manager.
func (m *leading) Start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- m.Manager.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case err := <-m.lost:
		return err
	}
}

// cacheWarmer fills the cache of control planes when the process starts, so that the first
// request does not have to wait. Its readiness check reports whether the cache is filled.
type cacheWarmer struct {
	cache  cache.Cache
	warm   []client.Object
	filled atomic.Bool
}

// NeedLeaderElection returns false, so that every replica fills its cache.
func (*cacheWarmer) NeedLeaderElection() bool { return false }

func (w *cacheWarmer) Start(ctx context.Context) error {
	for _, obj := range w.warm {
		if _, err := w.cache.GetInformer(ctx, obj); err != nil && ctx.Err() == nil {
			return fmt.Errorf("filling the cache of %T: %w; check that the custom resource definitions of coder-k8s are installed", obj, err)
		}
	}
	w.filled.Store(true)
	<-ctx.Done()
	return nil
}

func (w *cacheWarmer) Ready(r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), cacheWait)
	defer cancel()
	if !w.filled.Load() || !w.cache.WaitForCacheSync(ctx) {
		return errors.New("the caches are not filled yet")
	}
	return nil
}
