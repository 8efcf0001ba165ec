package mcpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

const (
	// drainTime is how long calls may go on once the process is told to end.
	drainTime = 4 * time.Second
	// stopTime is when connections are cut that are still open, which leaves a second
	// of the eight to what is cut.
	stopTime = 7 * time.Second
)

// NeedLeaderElection lets every replica serve.
func (*Server) NeedLeaderElection() bool { return false }

// Start serves until ctx is done, and then ends within eight seconds whatever
// clients do. Its errors are those of the start, and that the listener broke.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	// Calls outlive the end of ctx for a while, so they have a context of their own.
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
	failed := make(chan error, 2)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serving MCP on %s: %w", listener.Addr(), err)
		}
	}()
	go func() {
		if err := s.identity.Start(ctx); err != nil && ctx.Err() == nil {
			failed <- err
		}
	}()
	// Whoever asks for the first confirmation does not wait for the key.
	go func() { _, _ = s.key.Get(ctx) }()
	s.serving.Store(true)
	s.logger.Info("Serving MCP", "address", listener.Addr().String(), "tls", s.options.TLSCertFile != "", "auth", s.options.Identity.Mode)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	s.serving.Store(false)
	s.end(server, cancelCalls)
	return err
}

// end ends streams at once, lets calls finish for a while and then cancels them,
// and closes connections as they have nothing to do, in the end all of them. It
// never fails: what is open until then belongs to clients that were told to go.
func (s *Server) end(server *http.Server, cancelCalls context.CancelFunc) {
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		ctx, cancel := context.WithTimeout(context.Background(), s.drain)
		defer cancel()
		if err := s.protocol.Close(ctx); err != nil {
			s.logger.Info("Cancelled calls that were not finished", "after", s.drain.String())
		}
		cancelCalls()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), s.stop)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		s.logger.Info("Cutting connections that are still open", "after", s.stop.String())
		if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.logger.Error(err, "Closing the MCP server")
		}
	}
	<-quiet
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
		// Deadlines of a single request reach the connection, which HTTP/2 shares.
		NextProtos: []string{"http/1.1"},
	}), nil
}
