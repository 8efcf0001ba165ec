package mcpserver

import (
	"fmt"
	"net/http"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/gate"
)

// routes returns the handler for all paths.
func (s *Server) routes(g *gate.Gate) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(callers.MCPPath, g.Calls(s.protocol))
	// The probes need no authentication, because they reveal nothing.
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.serveReady)
	if metadata := s.authenticator.Metadata(); metadata != nil {
		mux.Handle(callers.MetadataPath, metadata)
		mux.Handle(callers.MetadataPath+"/", metadata)
	}
	return g.Requests(mux)
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := s.Ready(r); err != nil {
		s.logger.V(1).Info("Not ready", "reason", err.Error())
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
