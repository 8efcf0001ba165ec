package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	drainTime = 4 * time.Second
	stopTime  = 7 * time.Second
)

// Config is what the server is made of.
type Config struct {
	Options Options
	// RESTConfig has the server's own identity, with which it asks about callers
	// and which it lets callers act through.
	RESTConfig *rest.Config
	// Scheme knows the types of both API groups.
	Scheme *runtime.Scheme
	// Mapper maps kinds to resources with the server's own identity. Nil makes one.
	Mapper meta.RESTMapper
	// Namespace is that of Service coder-k8s, whose names clients may use.
	Namespace string
	// Version is what the server tells clients.
	Version string

	// Logger is controller-runtime's unless set.
	Logger logr.Logger

	// Kube replaces the client for reviews, in tests.
	Kube kubernetes.Interface
	// Listener replaces the one made from Options.BindAddress, in tests.
	Listener net.Listener
	// Clock is the real one unless set.
	Clock clock.PassiveClock
}

// Server is the MCP server. It is a manager.Runnable.
type Server struct {
	options  Options
	listener net.Listener
	handler  http.Handler
	probe    *probe
	logger   logr.Logger
	serving  atomic.Bool
	// drain is how long calls may go on once the process is told to end, and stop
	// is when connections are cut that are still open after that.
	drain, stop time.Duration
}

// New prepares a server. Nothing is opened and nobody is asked before Start.
func New(cfg Config) (*Server, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Logger.GetSink() == nil {
		cfg.Logger = log.Log.WithName("mcp")
	}
	own := rest.CopyConfig(cfg.RESTConfig)
	own.QPS, own.Burst, own.RateLimiter = -1, 0, nil
	kube, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("making the client for token reviews: %w", err)
	}
	if cfg.Kube == nil {
		cfg.Kube = kube
	}
	if err := cfg.completeMapper(own); err != nil {
		return nil, err
	}
	callers, err := newCallerClient(cfg.RESTConfig, cfg.Scheme, cfg.Mapper)
	if err != nil {
		return nil, err
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("making the key of the token cache: %w", err)
	}
	s := &Server{
		options:  cfg.Options,
		listener: cfg.Listener,
		probe:    &probe{client: kube.Discovery().RESTClient(), clock: cfg.Clock},
		logger:   cfg.Logger,
		drain:    drainTime,
		stop:     stopTime,
	}
	protocol := newProtocolHandler(newProtocol(cfg.Version, callers, cfg.Clock, cfg.Logger), cfg.Logger)
	authn := newTokenReviewer(cfg.Kube.AuthenticationV1().TokenReviews(), cfg.Clock, key)
	authz := newEntryReviewer(cfg.Kube.AuthorizationV1().SubjectAccessReviews(), cfg.Clock)
	s.handler = s.routes(cfg, authenticated(authn, authz, protocol))
	return s, nil
}

// completeMapper makes a mapper where none was given.
func (cfg *Config) completeMapper(own *rest.Config) error {
	if cfg.Mapper != nil {
		return nil
	}
	httpClient, err := rest.HTTPClientFor(own)
	if err != nil {
		return fmt.Errorf("making the client for discovery: %w", err)
	}
	if cfg.Mapper, err = apiutil.NewDynamicRESTMapper(own, httpClient); err != nil {
		return fmt.Errorf("making the mapper of kinds: %w", err)
	}
	return nil
}

func (s *Server) routes(cfg Config, protocol http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(mcpPath, newGuard(cfg.Options, cfg.Namespace).wrap(protocol))
	// Probes tell nothing, so anybody may ask.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Ready(r); err != nil {
			s.logger.V(1).Info("Not ready", "reason", err.Error())
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return recovered(s.logger, logged(s.logger, cfg.Clock, uuid.NewString, limited(cfg.Clock, mux)))
}

// NeedLeaderElection lets every replica serve.
func (*Server) NeedLeaderElection() bool { return false }

// Start serves until ctx is done, and then ends within eight seconds whatever
// clients do: calls may finish for a while, then they are cancelled, then the
// connections are closed.
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	// Calls outlive the end of ctx for drainTime, so they have a context of their
	// own.
	callCtx, cancelCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelCalls()
	server := &http.Server{
		Handler:           s.handler,
		BaseContext:       func(net.Listener) context.Context { return callCtx },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(s.logger.V(1)), slog.LevelInfo),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	s.serving.Store(true)
	defer s.serving.Store(false)
	s.logger.Info("Serving MCP", "address", listener.Addr().String(), "tls", s.options.TLSCertFile != "")
	select {
	case err := <-failed:
		return fmt.Errorf("serving MCP on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	s.serving.Store(false)
	s.end(server, cancelCalls)
	return nil
}

// end never fails: what is still open in the end belongs to clients that were
// told to go.
func (s *Server) end(server *http.Server, cancelCalls context.CancelFunc) {
	drained := time.AfterFunc(s.drain, cancelCalls)
	defer drained.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), s.stop)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		s.logger.Info("Cutting connections that are still open", "after", s.stop.String())
		if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.logger.Error(err, "Closing the MCP server")
		}
	}
}

func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	listener := s.listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.BindAddress); err != nil {
			return nil, fmt.Errorf("listening on --mcp-bind-address %s: %w", s.options.BindAddress, err)
		}
	}
	if s.options.TLSCertFile == "" {
		return listener, nil
	}
	watcher, err := certwatcher.New(s.options.TLSCertFile, s.options.TLSKeyFile)
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("reading --mcp-tls-cert-file and --mcp-tls-key-file: %w", err)
	}
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.logger.Error(err, "Watching the certificate of the MCP server")
		}
	}()
	return tls.NewListener(listener, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: watcher.GetCertificate,
		NextProtos:     []string{"http/1.1"},
	}), nil
}
