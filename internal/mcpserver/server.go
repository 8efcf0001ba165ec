package mcpserver

import (
	"cmp"
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
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/prompts"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/protocol"
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
	// Mapper maps kinds to resources with the server's own identity.
	Mapper meta.RESTMapper
	// Namespace is the namespace of Service coder-k8s, whose names clients may use.
	// ClusterDomain is the DNS domain of the cluster.
	Namespace, ClusterDomain string
	// InCluster reports that the process runs in a pod.
	InCluster bool
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

const (
	// readyTTL is how long a check of Ready is valid. This prevents probes, which need no token,
	// from adding to the load of an overloaded API server.
	readyTTL = 2 * time.Second
)

// Server is the MCP server. It is a manager.Runnable.
type Server struct {
	cfg           Config
	handler       http.Handler
	middleware    *Middleware
	authenticator *callers.Authenticator
	protocol      *protocol.Server
	metrics       *protocol.Metrics
	// api requests the version of the API server, for Ready.
	api     rest.Interface
	ready   readiness
	serving atomic.Bool
	// drain is how long calls may continue after the shutdown has begun. stop is the time
	// after which open connections are closed. check is how long Ready waits for the checks.
	drain, stop, check time.Duration
}

// New creates a server. It opens no listener and sends no requests before Start.
func New(cfg Config) (*Server, error) {
	offered, err := tools.All().Filter(cfg.Options.Tools)
	if err != nil {
		return nil, err
	}
	return newServer(cfg, offered)
}

func newServer(cfg Config, offered *toolset.Set) (*Server, error) {
	cfg.Clock = cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{})
	if cfg.Logger.GetSink() == nil {
		cfg.Logger = log.Log.WithName("mcp")
	}
	// API Priority and Fairness limits the clients on the server side. The default limit of
	// client-go is a few requests a second for all callers together.
	own := rest.CopyConfig(cfg.RESTConfig)
	own.QPS, own.Burst, own.RateLimiter = -1, 0, nil
	reviews, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making the client for reviews: %w", err)
	}
	kube, err := callers.New(cfg.RESTConfig, cfg.Scheme, cfg.Mapper, cfg.Options.UserExtra...)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, drain: drainTime, stop: stopTime, check: checkTime,
		api: reviews.Discovery().RESTClient(),
	}
	var names []string
	for _, definition := range offered.Definitions() {
		names = append(names, definition.Name)
	}
	if s.metrics, err = protocol.NewMetrics(cfg.Registerer, names); err != nil {
		return nil, err
	}
	s.authenticator, err = callers.NewAuthenticator(callers.AuthenticatorConfig{
		Options:     *cfg.Options.Identity,
		BindAddress: cfg.Options.BindAddress,
		InCluster:   cfg.InCluster,
		Kube:        reviews,
		Logger:      cfg.Logger,
		Observe: func(ctx context.Context, outcome, user string) {
			s.metrics.Authentications.WithLabelValues(outcome).Inc()
			noteUser(ctx, user)
		},
	})
	if err != nil {
		return nil, err
	}
	if s.protocol, err = s.newProtocol(kube, offered); err != nil {
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

func (s *Server) newProtocol(kube *callers.Kube, offered *toolset.Set) (*protocol.Server, error) {
	o := s.cfg.Options
	env := toolset.Env{
		Kube: kube, Confirmer: toolset.NewConfirmations(callers.ConfirmationKey, s.cfg.Clock), Clock: s.cfg.Clock,
		RequireElicitation: o.RequireElicitation, InsideUnconfirmed: o.InsideUnconfirmed,
	}
	return protocol.New(protocol.Config{
		Version: s.cfg.Version,
		Tools:   offered,
		Env:     env,
		Content: func(server *mcp.Server) { prompts.Register(server, kube) },
		Metrics: s.metrics,
		Tracing: s.cfg.Tracing,
		Clock:   s.cfg.Clock,
		Logger:  s.cfg.Logger,
	})
}

// routes returns the handler for all paths.
func (s *Server) routes() http.Handler {
	s.middleware = NewMiddleware(MiddlewareConfig{
		Options:   s.cfg.Options,
		Namespace: s.cfg.Namespace, ClusterDomain: s.cfg.ClusterDomain,
		Authenticate: s.authenticator.Authenticated,
		Metrics:      s.metrics,
		Clock:        s.cfg.Clock,
		Logger:       s.cfg.Logger,
	})
	mux := http.NewServeMux()
	mux.Handle(callers.MCPPath, s.middleware.Calls(s.protocol))
	// The probes need no authentication, because they reveal nothing.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.serveReady)
	if metadata := s.authenticator.Metadata(); metadata != nil {
		mux.Handle(callers.MetadataPath, metadata)
		mux.Handle(callers.MetadataPath+"/", metadata)
	}
	return s.middleware.Requests(mux)
}
