package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

const (
	// reachableTTL is how long a successful check of the API server is valid.
	reachableTTL = 5 * time.Second
	// unreachableTTL is how long a failed check is valid. It prevents probes from adding to
	// the load of an overloaded API server.
	unreachableTTL = time.Second
	// probeTimeout limits a check of the API server and of the authentication.
	probeTimeout = 2 * time.Second
)

// probe checks whether the API server responds, and caches the result.
type probe struct {
	client rest.Interface
	clock  clock.PassiveClock

	mu      sync.Mutex
	checked time.Time
	err     error
}

func newProbe(client rest.Interface, clk clock.PassiveClock) *probe {
	return &probe{client: client, clock: clk}
}

func (p *probe) check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ttl := reachableTTL
	if p.err != nil {
		ttl = unreachableTTL
	}
	if !p.checked.IsZero() && p.clock.Since(p.checked) < ttl {
		return p.err
	}
	p.err = p.client.Get().AbsPath("/version").Do(ctx).Error()
	p.checked = p.clock.Now()
	return p.err
}

// Ready returns an error if the server cannot answer calls now: if it does not listen, if
// the API server does not respond, or if tokens cannot be checked. It is a healthz.Checker.
func (s *Server) Ready(r *http.Request) error {
	if !s.serving.Load() {
		return errors.New("the MCP server is not listening")
	}
	// The result is cached for later probes, so the check continues if this probe is
	// canceled.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), probeTimeout)
	defer cancel()
	if err := s.probe.check(ctx); err != nil {
		return fmt.Errorf("the API server does not respond to the MCP server: %w", err)
	}
	return s.authenticator.Check(ctx)
}
