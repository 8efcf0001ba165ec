package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/coder/coder/v2/codersdk"
	"github.com/coder/coder/v2/codersdk/workspacesdk"
)

// The ports on which an agent serves its metrics, its state (logs, and the manifest with startup scripts and environment
// variables) and profiles, unless its template has moved or disabled these servers.
const metricsPort, debugPort, profilesPort = 2112, 2113, 6060

// maxPortsBytes limits the agent's list of ports and the header of that response.
const maxPortsBytes = 1 << 20

// checkPort returns an error for a port on which the agent itself listens.
func (s *Session) checkPort(ctx context.Context, port uint16) error {
	switch {
	case port < workspacesdk.AgentMinimumListeningPort, port == workspacesdk.AgentStandardSSHPort:
		return fmt.Errorf("port %d belongs to the agent itself, which runs commands there without a password: "+
			"use the subresource exec, as kubectl coder ssh does", port)
	case port != metricsPort && port != debugPort && port != profilesPort:
		return nil
	}
	listed, err := s.lists(ctx, port)
	if err != nil {
		return fmt.Errorf("port %d may belong to the agent itself, and the agent does not say which ports are those of the workspace: %w", port, err)
	}
	if !listed {
		return fmt.Errorf("port %d belongs to the agent itself, which serves metrics, its state or profiles there: use another port. If the "+
			"template has moved that server, the workspace's own must listen on an IPv4 address, because the agent lists no others", port)
	}
	return nil
}

// lists reports whether a port is in the agent's list of ports with a server. The list contains neither ports of the agent nor
// servers that listen on IPv6.
func (s *Session) lists(ctx context.Context, port uint16) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return s.Conn.Dial(ctx, workspacesdk.AgentHTTPAPIServerPort)
		},
		DisableKeepAlives: true, MaxResponseHeaderBytes: maxPortsBytes,
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent/api/v0/listening-ports", nil)
	if err != nil {
		return false, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("its answer to %s has the status %d", request.URL.Path, response.StatusCode)
	}
	var list codersdk.WorkspaceAgentListeningPortsResponse
	if err := json.NewDecoder(io.LimitReader(response.Body, maxPortsBytes)).Decode(&list); err != nil {
		return false, fmt.Errorf("reading its answer to %s: %w", request.URL.Path, err)
	}
	return slices.ContainsFunc(list.Ports, func(p codersdk.WorkspaceAgentListeningPort) bool { return p.Port == port }), nil
}
