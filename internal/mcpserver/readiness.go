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
	// reachableTTL is how long one answer of the API server counts.
	reachableTTL = 5 * time.Second
	// unreachableTTL keeps probes from adding to the load of a sick API server.
	unreachableTTL = time.Second
	// probeTimeout bounds one question, and the wait for tokens to be checkable.
	probeTimeout = 2 * time.Second
)

// probe asks the API server whether it answers, at most once in a while.
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

// Ready says whether the server can answer a call now: its listener is up, the API
// server, on which every call depends, answers, and tokens can be checked. It has
// the form of a healthz.Checker.
func (s *Server) Ready(r *http.Request) error {
	if !s.serving.Load() {
		return errors.New("the MCP server does not listen yet, or no more")
	}
	// The answer counts for later probes too, so it is not given up with this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), probeTimeout)
	defer cancel()
	if err := s.probe.check(ctx); err != nil {
		return fmt.Errorf("the API server does not answer the MCP server: %w", err)
	}
	return s.identity.Check(ctx)
}
