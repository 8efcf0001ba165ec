package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/template"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/user"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/workspace"
	"github.com/coder-k8s/coder-k8s/internal/coderd/agents"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

const (
	// drainTimeout is the maximum time that running requests have to end after a stop.
	drainTimeout = 7 * time.Second
	// resync is required by the library but has no effect here.
	resync = 10 * time.Minute
	// TokenReviews and SubjectAccessReviews use this connection, so its limits are limits of the
	// whole API.
	clientQPS, clientBurst = 200, 400
	// retryAfter is the Retry-After of responses while the cluster cannot answer.
	retryAfter = time.Second
)

// Connections are the Coder deployments to serve.
type Connections interface {
	connections.Provider
	// Serves reports whether a namespace has a Coder deployment, from memory.
	Serves(ctx context.Context, namespace string) (bool, error)
	// Knows reports whether the control planes of a namespace are among the Members.
	Knows(namespace string) bool
}

// Config configures a Server.
type Config struct {
	// Options are the command line options. Nil means the defaults.
	Options *Options
	// Connections are the Coder deployments to serve.
	Connections Connections
	// RESTConfig connects to the cluster that the API extends.
	RESTConfig *restclient.Config
	// PodNamespace is the namespace of the Secret with the serving certificate, and of the Lease
	// and the heartbeats of the replicas.
	PodNamespace string
	// Identity is the unique name of this replica: the name of its pod.
	Identity string
	// Metrics is the registry for the metrics.
	Metrics prometheus.Registerer
	// Tracing creates the spans of requests. Nil disables tracing.
	Tracing *tracing.Provider
	// Listener replaces the address of the options in tests.
	Listener net.Listener
	// MirrorLease is the duration of the mirror's Lease: how long this replica stays the leader
	// without a renewal. 0 means the default.
	MirrorLease time.Duration
	// MirrorTiming holds the intervals of the mirror. The zero value means mirror.DefaultTiming.
	MirrorTiming mirror.Timing
	// DialAgent connects to the agents of workspaces. Nil means the default.
	DialAgent agents.Dialer
	// Clock is the source of time. Nil means the real clock.
	Clock clock.WithTicker
}

// Server is the aggregated API server. It is a manager.Runnable that every
// replica runs.
type Server struct {
	generic      *server.GenericAPIServer
	informers    informers.SharedInformerFactory
	certificates *certificates.Manager
	storage      *storage
	// authorities are the CAs of clients. Tests without kube-apiserver have none.
	authorities []authority
	serving     atomic.Bool
}

var (
	_ manager.Runnable               = (*Server)(nil)
	_ manager.LeaderElectionRunnable = (*Server)(nil)
	_ healthz.Checker                = (*Server)(nil).Ready
)

// New builds the server. It opens the listener and reads from kube-apiserver which authorities to
// trust. It writes nothing.
func New(config Config) (*Server, error) {
	if config.RESTConfig == nil {
		return nil, errors.New("bug: the aggregated API server needs a connection to kube-apiserver")
	}
	own := restclient.CopyConfig(config.RESTConfig)
	own.QPS, own.Burst = clientQPS, clientBurst
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("creating a client for kube-apiserver: %w", err)
	}
	untyped, err := dynamic.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("creating a client for kube-apiserver: %w", err)
	}
	k := kube{
		client: client, dynamic: untyped, delegate: delegateTo(client),
		informers: informerFactory{informers.NewSharedInformerFactory(client, resync)},
	}
	for _, r := range []struct {
		cluster        *records.Cluster
		resource, kind string
	}{
		{&k.workspaces, "coderworkspacerecords", "CoderWorkspaceRecord"},
		{&k.templates, "codertemplaterecords", "CoderTemplateRecord"},
		{&k.users, "coderuserrecords", "CoderUserRecord"},
		{&k.sources, "codertemplatesources", "CoderTemplateSource"},
	} {
		if *r.cluster, err = records.NewClient(own, r.resource, r.kind); err != nil {
			return nil, err
		}
	}
	return newServer(config, k)
}

func newServer(config Config, k kube) (*Server, error) {
	if config.Options == nil {
		config.Options = NewOptions()
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	s := &Server{informers: k.informers}
	if config.Options.ownCertificate() {
		metrics, err := certificates.NewMetrics(config.Metrics)
		if err != nil {
			return nil, err
		}
		s.certificates = certificates.NewManager(certificates.Config{
			Metrics:   metrics,
			Secrets:   k.client.CoreV1().Secrets(config.PodNamespace),
			Services:  k.dynamic.Resource(certificates.APIServices),
			Namespace: config.PodNamespace,
			Clock:     config.Clock,
		})
	}
	typer, codecs := registry.NewScheme(workspace.AddToScheme, template.AddToScheme, user.AddToScheme)
	var err error
	generic := server.NewRecommendedConfig(codecs)
	generic.TracerProvider = config.Tracing.APIServer()
	if s.authorities, err = assemble(config.Options, typer, generic, k, s.certificates, config.Listener); err != nil {
		return nil, err
	}
	if s.storage, err = newStorage(config, k, typer, generic.Authorization.Authorizer); err != nil {
		return nil, err
	}
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
	gate := &registry.Gate{
		Board: s.storage.board, Filled: s.storage.stores.filled, Serves: config.Connections.Serves,
		Namespaces: s.storage.namespaces,
	}
	verbs, err := s.storage.rest(codecs, gate, s.generic.Authorizer)
	if err != nil {
		return nil, err
	}
	group := server.NewDefaultAPIGroupInfo(aggregationv1alpha1.GroupVersion.Group, typer, runtime.NewParameterCodec(typer), codecs)
	group.VersionedResourcesStorageMap[aggregationv1alpha1.GroupVersion.Version] = verbs
	if err := s.generic.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing API group %s: %w", aggregationv1alpha1.GroupVersion.Group, err)
	}
	return s, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Server) NeedLeaderElection() bool { return false }

// Ready implements healthz.Checker. It returns nil if the port is open and the caches that requests
// need are filled. Before the authorities are read, every request would get 401.
func (s *Server) Ready(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("the aggregated API does not serve yet")
	}
	for _, ca := range s.authorities {
		if len(ca.CurrentCABundleContent()) == 0 {
			return fmt.Errorf("a CA of clients is not read yet: check that ConfigMap %s/%s is readable, and has %s",
				metav1.NamespaceSystem, authenticationConfigMap, ca.key)
		}
	}
	if err := s.storage.stores.filled(); err != nil {
		return err
	}
	if _, known := s.storage.board.All(); !known {
		return errors.New("the sync status of the control planes is not read yet")
	}
	return nil
}

// Start serves until the context is done. Running requests then have drainTimeout to end.
func (s *Server) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("apiserver"))
	if s.certificates != nil {
		// The server cannot serve without a certificate.
		if err := s.certificates.WaitForFirst(ctx); err != nil {
			return err
		}
		go s.certificates.Run(ctx)
	}
	s.informers.Start(ctx.Done())
	prepared := s.generic.PrepareRun()
	// None of these functions ends earlier than the server.
	parts := []func(context.Context) error{
		prepared.RunWithContext,
		func(ctx context.Context) error { return s.storage.leader.Start(ctx, s.storage.mirrorAndPublish) },
		s.storage.states.Start, s.storage.sessions.Run, s.storage.actors.Run, s.storage.tokens.Run, s.storage.restored,
	}
	ended := make(chan error, len(parts))
	for _, run := range parts {
		go func() { ended <- run(ctx) }()
	}
	select {
	case err := <-ended:
		return s.result(ctx, err)
	case <-ctx.Done():
	}
	s.serving.Store(false)
	// The library does not wait for sessions in workspaces.
	s.storage.agents.Close()
	defer s.storage.close(ctx)
	grace := time.NewTimer(drainTimeout)
	defer grace.Stop()
	var errs []error
	for range parts {
		select {
		case err := <-ended:
			errs = append(errs, s.result(ctx, err))
		case <-grace.C:
			log.FromContext(ctx).Info("Stopping while requests are in progress", "after", drainTimeout)
			return errors.Join(errs...)
		}
	}
	return errors.Join(errs...)
}

func (s *Server) result(ctx context.Context, err error) error {
	if err != nil {
		return fmt.Errorf("serving the aggregated API: %w", err)
	}
	if ctx.Err() == nil {
		return errors.New("the aggregated API server stopped unexpectedly")
	}
	return nil
}

// reportServing waits until the caches that requests need are filled.
func (s *Server) reportServing(ctx context.Context) {
	for _, synced := range s.informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return
		}
	}
	s.serving.Store(true)
	log.FromContext(ctx).Info("Serving the aggregated API", "address", s.generic.SecureServingInfo.Listener.Addr().String())
}
