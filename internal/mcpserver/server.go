package mcpserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/protocol"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/resources"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/tools"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// Config configures a Server.
type Config struct {
	Options Options
	// RESTConfig has the server's own identity. It is used for reviews of callers, and as
	// the basis of the impersonating client.
	RESTConfig *rest.Config
	// Scheme must contain the types of both API groups and of Kubernetes.
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources with the server's own identity. If it is nil, one is
	// created.
	Mapper meta.RESTMapper
	// Namespace is the namespace of Service coder-k8s, whose names clients may use, and of
	// the Secret that replicas share. ClusterDomain is the DNS domain of the cluster.
	Namespace, ClusterDomain string
	// InCluster reports that the process runs in a pod.
	InCluster bool
	// WatchNamespaces are the namespaces that can contain control planes. Empty means all.
	WatchNamespaces []string
	// Version is the version that clients see.
	Version string
	// Registerer registers the metrics. If it is nil, there are none.
	Registerer prometheus.Registerer
	// Tracing creates the spans of calls. If it is nil, there are none.
	Tracing *tracing.Provider

	// Logger defaults to controller-runtime's logger.
	Logger logr.Logger

	// Listener replaces the listener for Options.BindAddress, in tests.
	Listener net.Listener
	// Clock defaults to the real clock.
	Clock clock.WithTicker
}

// Server is the MCP server. It is a manager.Runnable.
type Server struct {
	options       Options
	listener      net.Listener
	handler       http.Handler
	authenticator *callers.Authenticator
	protocol      *protocol.Server
	key           *sharedKey
	probe         *probe
	logger        logr.Logger
	serving       atomic.Bool
	// drain is how long calls may continue after the shutdown has begun. stop is the time
	// after which open connections are closed.
	drain, stop time.Duration
}

// New creates a server. It opens no listener and sends no requests before Start.
func New(cfg Config) (*Server, error) {
	own, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	reviews, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making the client for reviews: %w", err)
	}
	kube, err := callers.New(cfg.RESTConfig, cfg.Scheme, cfg.Mapper, cfg.Options.UserExtra...)
	if err != nil {
		return nil, err
	}
	offered, err := tools.All().Filter(cfg.Options.Tools)
	if err != nil {
		return nil, err
	}
	counts, err := cfg.metrics(offered)
	if err != nil {
		return nil, err
	}
	namespaces, err := cfg.namespaces(own)
	if err != nil {
		return nil, err
	}
	s := &Server{
		options:  cfg.Options,
		listener: cfg.Listener,
		key:      cfg.key(reviews.CoreV1().Secrets(cfg.Namespace)),
		probe:    newProbe(reviews.Discovery().RESTClient(), cfg.Clock),
		logger:   cfg.Logger,
		drain:    drainTime,
		stop:     stopTime,
	}
	reviewer := callers.NewReviewer(callers.ReviewerConfig{Kube: reviews, Callers: kube, Namespaces: namespaces, Clock: cfg.Clock})
	if s.authenticator, err = cfg.authenticator(reviews.AuthenticationV1().TokenReviews(), reviewer, counts); err != nil {
		return nil, err
	}
	if s.protocol, err = cfg.protocol(kube, offered, reviewer, counts, s.key); err != nil {
		return nil, err
	}
	s.handler = s.routes(cfg.middleware(s.authenticator, counts))
	return s, nil
}

// complete sets the defaults, and returns the configuration for clients with the server's
// own identity. API Priority and Fairness limits them on the server side; the default limit
// of client-go is a few requests a second for all callers together.
func (cfg *Config) complete() (*rest.Config, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger.GetSink() == nil {
		cfg.Logger = log.Log.WithName("mcp")
	}
	own := rest.CopyConfig(cfg.RESTConfig)
	own.QPS, own.Burst, own.RateLimiter = -1, 0, nil
	if cfg.Mapper != nil {
		return own, nil
	}
	httpClient, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("making the client for discovery: %w", err)
	}
	if cfg.Mapper, err = apiutil.NewDynamicRESTMapper(own, httpClient); err != nil {
		return nil, fmt.Errorf("making the mapper of kinds: %w", err)
	}
	return own, nil
}

// key returns the key that signs questions to users. Without authentication, the server
// runs on a user's machine: it has no replicas, and must not create Secrets in the clusters
// of the kubeconfig.
func (cfg *Config) key(secrets corev1client.SecretInterface) *sharedKey {
	if cfg.Options.Identity.Mode == callers.ModeNone {
		return newUnsharedKey()
	}
	return newSharedKey(secrets, cfg.Clock, cfg.Logger)
}

func (cfg *Config) metrics(offered *toolset.Set) (*Metrics, error) {
	if cfg.Registerer == nil {
		return nil, nil
	}
	var names []string
	for _, definition := range offered.Definitions() {
		names = append(names, definition.Name)
	}
	return NewMetrics(cfg.Registerer, names)
}

// namespaces returns the function that lists the namespaces in which permissions are
// checked.
func (cfg *Config) namespaces(own *rest.Config) (func(context.Context) ([]string, error), error) {
	if len(cfg.WatchNamespaces) > 0 {
		return func(context.Context) ([]string, error) { return cfg.WatchNamespaces, nil }, nil
	}
	objects, err := metadata.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making the client that finds control planes: %w", err)
	}
	return newNamespaces(objects, cfg.Clock).list, nil
}

func (cfg *Config) authenticator(reviews authenticationclient.TokenReviewInterface, entry callers.Reviewer, counts *Metrics) (*callers.Authenticator, error) {
	return callers.NewAuthenticator(callers.AuthenticatorConfig{
		Options:     *cfg.Options.Identity,
		BindAddress: cfg.Options.BindAddress,
		InCluster:   cfg.InCluster,
		Reviews:     reviews,
		Entry:       entry,
		Observe: func(ctx context.Context, outcome callers.AuthenticationOutcome, user string) {
			counts.Authenticated(string(outcome))
			noteUser(ctx, user)
		},
		Clock: cfg.Clock,
	})
}

func (cfg *Config) protocol(kube *callers.Kube, offered *toolset.Set, reviewer callers.Reviewer, counts *Metrics, key *sharedKey) (*protocol.Server, error) {
	content := resources.New(kube, cfg.Clock)
	env := toolset.Env{Kube: kube, Confirmer: toolset.NewConfirmations(key.Get, cfg.Clock), RequireElicitation: cfg.Options.RequireElicitation, Clock: cfg.Clock}
	if cfg.Options.InsideUnconfirmed {
		env.Unconfirmed = []string{toolset.Inside}
	}
	return protocol.New(protocol.Config{
		Version: cfg.Version,
		Tools:   offered,
		Env:     env,
		Content: func(server *mcp.Server) {
			resources.RegisterPrompts(server, kube)
			content.Register(server)
		},
		Completion:        content.Complete,
		Subscriptions:     content,
		Access:            reviewer,
		Metrics:           counts,
		Tracing:           cfg.Tracing,
		MaxSessions:       cfg.Options.MaxSessions,
		MaxStreamsPerUser: cfg.Options.MaxStreamsPerUser,
		// The same share as for requests that have a connection.
		MaxSessionCallsPerUser: shareOfUser(cfg.Options.MaxInFlight),
		Clock:                  cfg.Clock,
		Logger:                 cfg.Logger,
	})
}

func (cfg *Config) middleware(id *callers.Authenticator, counts *Metrics) *Middleware {
	o := cfg.Options
	return NewMiddleware(MiddlewareConfig{
		Limits: RequestLimits{RatePerUser: o.RateLimit, Burst: o.RateBurst, InFlight: o.MaxInFlight},
		Names: AllowedNames{
			Namespace: cfg.Namespace, ClusterDomain: cfg.ClusterDomain,
			Hosts: o.AllowedHosts, Origins: o.AllowedOrigins, PublicURL: o.Identity.PublicURL,
		},
		Authenticate: id.Authenticated,
		Metrics:      counts,
		Clock:        cfg.Clock,
		Logger:       cfg.Logger,
	})
}

// routes returns the handler for all paths.
func (s *Server) routes(m *Middleware) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(callers.MCPPath, m.Calls(s.protocol))
	// The probes need no authentication, because they reveal nothing.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.serveReady)
	if metadata := s.authenticator.Metadata(); metadata != nil {
		mux.Handle(callers.MetadataPath, metadata)
		mux.Handle(callers.MetadataPath+"/", metadata)
	}
	return m.Requests(mux)
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := s.Ready(r); err != nil {
		s.logger.V(1).Info("Not ready", "reason", err.Error())
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
