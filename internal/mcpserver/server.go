package mcpserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
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
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
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

// readyTTL is how long a check of Ready is valid. This prevents probes, which need no token,
// from adding to the load of an overloaded API server.
const readyTTL = 2 * time.Second

// Server is the MCP server. It is a manager.Runnable.
type Server struct {
	cfg           Config
	handler       http.Handler
	middleware    *Middleware
	authenticator *callers.Authenticator
	protocol      *protocol.Server
	metrics       *protocol.Metrics
	// api requests the version of the API server, for Ready.
	api rest.Interface
	// ready is the result of the last check of Ready. err is nil if calls can be answered.
	ready struct {
		mu      sync.Mutex
		checked time.Time
		err     error
	}
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
	s.protocol, err = protocol.New(protocol.Config{
		Version: cfg.Version,
		Tools:   offered,
		Env: toolset.Env{
			Kube: kube, Confirmer: toolset.NewConfirmations(callers.ConfirmationKey, cfg.Clock), Clock: cfg.Clock,
			RequireElicitation: cfg.Options.RequireElicitation, InsideUnconfirmed: cfg.Options.InsideUnconfirmed,
		},
		Content: func(server *mcp.Server) { prompts.Register(server, kube) },
		Metrics: s.metrics,
		Tracing: cfg.Tracing,
		Clock:   cfg.Clock,
		Logger:  cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
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

const (
	// drainTime is how long calls may continue after the shutdown has begun.
	drainTime = 4 * time.Second
	// stopTime is the time after which open connections are closed. It leaves one of the
	// eight seconds for closing them.
	stopTime = 7 * time.Second
	// checkTime limits the checks of the API server and of the authentication together.
	checkTime = 4 * time.Second
)

// NeedLeaderElection returns false, so that every replica serves.
func (*Server) NeedLeaderElection() bool { return false }

// Start serves until ctx is done, and then shuts down within eight seconds, whatever
// clients do. It returns an error if the server cannot start or the listener fails.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.authenticator.Start(ctx); err != nil {
		return err
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	// Calls may continue after ctx is done, so they use another context.
	callCtx, cancelCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelCalls()
	server := &http.Server{
		Handler:           s.handler,
		BaseContext:       func(net.Listener) context.Context { return callCtx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(s.cfg.Logger.V(1)), slog.LevelInfo),
	}
	failed := make(chan error, 1)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serving MCP on %s: %w", listener.Addr(), err)
		}
	}()
	s.serving.Store(true)
	s.cfg.Logger.Info("Serving MCP", "address", listener.Addr().String(), "tls", s.cfg.Options.TLSCertFile != "", "auth", s.cfg.Options.Identity.Mode)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	s.serving.Store(false)
	// The server accepts no more requests, cancels calls that do not finish within s.drain, and closes all
	// connections after s.stop.
	drained := time.AfterFunc(s.drain, func() {
		// A connection without a request delays the end too, for up to five seconds.
		if calls := s.middleware.inFlight.Total(); calls > 0 {
			s.cfg.Logger.Info("Cancelling calls that are not finished", "after", s.drain.String(), "calls", calls)
		}
		cancelCalls()
	})
	defer drained.Stop()
	stopCtx, stop := context.WithTimeout(context.Background(), s.stop)
	defer stop()
	if err := server.Shutdown(stopCtx); err != nil {
		s.cfg.Logger.Info("Closing connections that are still open", "after", s.stop.String())
		if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.cfg.Logger.Error(err, "Could not close the MCP server")
		}
	}
	return err
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	listener := s.cfg.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Options.BindAddress); err != nil {
			return nil, fmt.Errorf("listening on --mcp-bind-address %s: %w", s.cfg.Options.BindAddress, err)
		}
	}
	if s.cfg.Options.TLSCertFile == "" {
		return listener, nil
	}
	watcher, err := certwatcher.New(s.cfg.Options.TLSCertFile, s.cfg.Options.TLSKeyFile)
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("reading --mcp-tls-cert-file and --mcp-tls-key-file: %w", err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.cfg.Logger.Error(err, "Could not watch the certificate of the MCP server")
		}
	}()
	return tls.NewListener(listener, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: watcher.GetCertificate,
		// The middleware sets deadlines on the connection for a single request. With HTTP/2, requests
		// would share the connection.
		NextProtos: []string{"http/1.1"},
	}), nil
}

// Ready returns an error if the server cannot answer calls now: if it does not listen, if
// the API server does not respond, or if tokens cannot be checked. It is a healthz.Checker.
func (s *Server) Ready(r *http.Request) error {
	if !s.serving.Load() {
		return errors.New("the MCP server is not listening")
	}
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	if s.ready.checked.IsZero() || s.cfg.Clock.Since(s.ready.checked) > readyTTL {
		// The result is for later probes too, so a check continues after the end of r.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), s.check)
		defer cancel()
		err := s.api.Get().AbsPath("/version").Do(ctx).Error()
		if err != nil {
			err = fmt.Errorf("the API server does not respond to the MCP server: %w", err)
		} else {
			err = s.authenticator.Check(ctx)
		}
		s.ready.err, s.ready.checked = err, s.cfg.Clock.Now()
	}
	return s.ready.err
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := s.Ready(r); err != nil {
		s.cfg.Logger.V(1).Info("Not ready", "reason", err.Error())
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
