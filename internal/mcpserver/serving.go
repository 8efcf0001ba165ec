package mcpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

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
	s.end(server, cancelCalls)
	return err
}

// end shuts the server down: it accepts no more requests, cancels calls that do not finish
// within s.drain, and closes all connections after s.stop.
func (s *Server) end(server *http.Server, cancelCalls context.CancelFunc) {
	drained := time.AfterFunc(s.drain, func() {
		// A connection without a request delays the end too, for up to five seconds.
		if calls := s.middleware.inFlight.Total(); calls > 0 {
			s.cfg.Logger.Info("Cancelling calls that are not finished", "after", s.drain.String(), "calls", calls)
		}
		cancelCalls()
	})
	defer drained.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), s.stop)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		s.cfg.Logger.Info("Closing connections that are still open", "after", s.stop.String())
		if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.cfg.Logger.Error(err, "Could not close the MCP server")
		}
	}
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
		s.ready.err, s.ready.checked = s.checkServers(ctx), s.cfg.Clock.Now()
	}
	return s.ready.err
}

// readiness is the result of the last check of Ready. err is nil if calls can be answered.
type readiness struct {
	mu      sync.Mutex
	checked time.Time
	err     error
}

func (s *Server) checkServers(ctx context.Context) error {
	if err := s.api.Get().AbsPath("/version").Do(ctx).Error(); err != nil {
		return fmt.Errorf("the API server does not respond to the MCP server: %w", err)
	}
	return s.authenticator.Check(ctx)
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := s.Ready(r); err != nil {
		s.cfg.Logger.V(1).Info("Not ready", "reason", err.Error())
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
