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
	probeTimeout   = 2 * time.Second
)

// probe asks the API server whether it answers, at most once in a while.
type probe struct {
	client rest.Interface
	clock  clock.PassiveClock

	mu      sync.Mutex
	checked time.Time
	err     error
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
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p.err = p.client.Get().AbsPath("/version").Do(ctx).Error()
	p.checked = p.clock.Now()
	return p.err
}

// Ready says whether the server can answer a call now: its listener is up, and
// the API server, on which every call depends, answers. It has the form of a
// healthz.Checker.
func (s *Server) Ready(r *http.Request) error {
	if !s.serving.Load() {
		return errors.New("the MCP server does not listen yet, or no more")
	}
	if err := s.probe.check(r.Context()); err != nil {
		return fmt.Errorf("the API server does not answer the MCP server: %w", err)
	}
	return nil
}
