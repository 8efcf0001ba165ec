package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/certificates"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/template"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/workspace"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/scheme"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

const (
	// drainTimeout bounds how long requests under way may take to end after a
	// stop was asked for.
	drainTimeout = 7 * time.Second
	// resync is unused by what we read; the library wants a value.
	resync = 10 * time.Minute
	// The questions about callers go through this connection, so its limits are
	// limits of the whole API.
	clientQPS, clientBurst = 200, 400
)

// Config is what the server is built from.
type Config struct {
	// Options are those of the command line. Nil is the defaults.
	Options *Options
	// Connections are the Coder deployments to serve.
	Connections connections.Provider
	// RESTConfig reaches the cluster that the API extends.
	RESTConfig *restclient.Config
	// PodNamespace is where the Secret of the serving certificate lives.
	PodNamespace string
	// Listener is used in place of the address of the options. It is for tests.
	Listener net.Listener
	// Clock is the real one where it is nil.
	Clock clock.WithTicker
}

// Server is the aggregated API server. It is a manager.Runnable that every
// replica runs.
type Server struct {
	generic      *server.GenericAPIServer
	informers    informers.SharedInformerFactory
	certificates *certificates.Manager
	promoter     *template.Promoter
	serving      atomic.Bool
}

var (
	_ manager.Runnable               = (*Server)(nil)
	_ manager.LeaderElectionRunnable = (*Server)(nil)
	_ healthz.Checker                = (*Server)(nil).Ready
)

// New builds the server. It opens the listener, and reads from kube-apiserver
// whom to trust; it writes nothing.
func New(config Config) (*Server, error) {
	if config.RESTConfig == nil {
		return nil, errors.New("bug: the aggregated API server needs a connection to kube-apiserver")
	}
	own := restclient.CopyConfig(config.RESTConfig)
	own.QPS, own.Burst = clientQPS, clientBurst
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making a client of kube-apiserver: %w", err)
	}
	untyped, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making a client of kube-apiserver: %w", err)
	}
	return newServer(config, kube{
		client: client, dynamic: untyped,
		informers: informers.NewSharedInformerFactory(client, resync),
		delegate:  delegateTo(client),
	})
}

func newServer(config Config, k kube) (*Server, error) {
	if config.Options == nil {
		config.Options = NewOptions()
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	s := &Server{informers: k.informers, promoter: template.NewPromoter(config.Connections, config.Clock)}
	if config.Options.ownCertificate() {
		s.certificates = certificates.NewManager(certificates.Config{
			Secrets:   k.client.CoreV1().Secrets(config.PodNamespace),
			Services:  k.dynamic.Resource(certificates.APIServices),
			Namespace: config.PodNamespace,
			Clock:     config.Clock,
		})
	}
	typer, codecs := scheme.New()
	generic := server.NewRecommendedConfig(codecs)
	if err := assemble(config.Options, typer, generic, k, s.certificates, config.Listener); err != nil {
		return nil, err
	}
	var err error
	if s.generic, err = generic.Complete().New(serverName, server.NewEmptyDelegate()); err != nil {
		return nil, fmt.Errorf("building the aggregated API server: %w", err)
	}
	s.generic.ShutdownTimeout = drainTimeout
	if err := s.generic.AddPostStartHook("coder-k8s-serving", func(hook server.PostStartHookContext) error {
		go s.reportServing(hook)
		return nil
	}); err != nil {
		return nil, err
	}
	return s, s.install(config, k, typer, codecs)
}

// install puts the kinds into the server.
func (s *Server) install(config Config, k kube, typer *runtime.Scheme, codecs serializer.CodecFactory) error {
	released := &namespaces{cache: k.informers.Core().V1().Namespaces().Lister(), client: k.client}
	workspaces, err := registry.NewREST(workspace.NewKind(config.Connections, typer, config.Clock), codecs, released, config.Clock)
	if err != nil {
		return fmt.Errorf("building the storage of workspaces: %w", err)
	}
	templates, err := registry.NewREST(template.NewKind(config.Connections, s.promoter, typer, config.Clock), codecs, released, config.Clock)
	if err != nil {
		return fmt.Errorf("building the storage of templates: %w", err)
	}
	group := server.NewDefaultAPIGroupInfo(aggregationv1alpha1.GroupVersion.Group, typer, metav1.ParameterCodec, codecs)
	group.VersionedResourcesStorageMap[aggregationv1alpha1.GroupVersion.Version] = map[string]rest.Storage{
		"coderworkspaces": workspaces,
		"codertemplates":  templates,
	}
	if err := s.generic.InstallAPIGroup(&group); err != nil {
		return fmt.Errorf("installing API group %s: %w", aggregationv1alpha1.GroupVersion.Group, err)
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Server) NeedLeaderElection() bool { return false }

// Ready implements healthz.Checker: the port is open, and what is needed to
// decide about requests is known.
func (s *Server) Ready(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("the aggregated API does not serve yet")
	}
	return nil
}

// Start serves until the context is done. Requests that are under way then have
// a few seconds to end.
func (s *Server) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("apiserver"))
	if s.certificates != nil {
		// Without a certificate there is nothing to serve with.
		if err := s.certificates.WaitForFirst(ctx); err != nil {
			return err
		}
		go s.certificates.Run(ctx)
	}
	s.informers.Start(ctx.Done())
	go s.promoter.Run(ctx)
	prepared := s.generic.PrepareRun()
	ended := make(chan error, 1)
	go func() { ended <- prepared.RunWithContext(ctx) }()
	select {
	case err := <-ended:
		return s.result(ctx, err)
	case <-ctx.Done():
	}
	s.serving.Store(false)
	grace := time.NewTimer(drainTimeout)
	defer grace.Stop()
	select {
	case err := <-ended:
		return s.result(ctx, err)
	case <-grace.C:
		log.FromContext(ctx).Info("Stopping with requests under way", "after", drainTimeout)
		return nil
	}
}

func (s *Server) result(ctx context.Context, err error) error {
	if err != nil {
		return fmt.Errorf("serving the aggregated API: %w", err)
	}
	if ctx.Err() == nil {
		return errors.New("the aggregated API server ended by itself")
	}
	return nil
}

// reportServing waits until the caches that decide about requests are full.
func (s *Server) reportServing(ctx context.Context) {
	for _, synced := range s.informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return
		}
	}
	s.serving.Store(true)
	log.FromContext(ctx).Info("Serving the aggregated API", "address", s.generic.SecureServingInfo.Listener.Addr().String())
}
