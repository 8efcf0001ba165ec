package agents

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// listing is an agent with an HTTP API. It counts the connections to other ports.
type listing struct {
	stub
	api       net.Listener
	forwarded int
}

// Dial implements Conn.
func (l *listing) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if port == 4 {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.api.Addr().String())
	}
	l.forwarded++
	return l.stub.Dial(ctx, port)
}

// TestAgentsServers checks that the servers of the agent for metrics, its state and profiles cannot be reached as ports of the
// workspace, unless the agent reports that another process has the port.
func TestAgentsServers(t *testing.T) {
	const path = "/api/v0/listening-ports"
	for name, c := range map[string]struct {
		status int
		list   string
		open   []uint16
		says   string
	}{
		"the defaults":          {http.StatusOK, `{"ports":[{"process_name":"web","network":"tcp","port":8080}]}`, nil, "belongs to the agent itself"},
		"a moved server":        {http.StatusOK, `{"ports":[{"network":"tcp","port":8080},{"network":"tcp","port":6060}]}`, []uint16{6060}, "belongs to the agent itself"},
		"no list":               {http.StatusInternalServerError, `{"message":"secret"}`, nil, path + " has the status 500"},
		"another answer":        {http.StatusOK, `<html>`, nil, "reading its answer to " + path},
		"an answer of any size": {http.StatusOK, `{"ports":[` + strings.Repeat(`{"port":1},`, maxPortsBytes/10) + `{"port":6060},{"port":2112},{"port":2113}]}`, nil, "reading its answer"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != path {
					t.Errorf("a request for %s", r.URL.Path)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.list))
			}))
			defer server.Close()
			agent := &listing{api: server.Listener}
			p := NewPool(func(context.Context, *coderd.Client, uuid.UUID) (Conn, error) { return agent, nil })
			defer p.Close()
			s := open(t, p, &coderd.Client{}, uuid.New())
			for _, port := range []uint16{2112, 2113, 6060} {
				_, err := s.Dial(t.Context(), port)
				if len(c.open) > 0 && port == c.open[0] {
					if err != nil {
						t.Errorf("port %d: %v", port, err)
					}
				} else if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d", port)) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
					t.Errorf("port %d: %v, want that it %s", port, err, c.says)
				}
			}
			if agent.forwarded != len(c.open) || p.used[useForwarded] != len(c.open) {
				t.Errorf("%d connections, of which %d are counted, want %d", agent.forwarded, p.used[useForwarded], len(c.open))
			}
		})
	}
}
