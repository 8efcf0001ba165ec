package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/coder/coder/v2/codersdk/workspacesdk"
	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"
	"tailscale.com/envknob"
	nodekey "tailscale.com/types/key"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

const (
	// mtuVariable sets the packet size of Tailscale. The agent reads it as well.
	mtuVariable = "TS_DEBUG_MTU"
	// relayMTU replaces Tailscale's 1280 bytes, which is small enough for every network. Packets to
	// the relay are sent through TCP, so they may be larger. An agent with another size receives
	// packets of that size.
	relayMTU = "32768"
)

var errReplaced = errors.New("the agent was restarted")

// relayed is a connection through Coder's relay. It is safe for concurrent use.
type relayed struct {
	conn workspacesdk.AgentConn
	// agent is the public key of the agent's process. A restarted agent has another key.
	agent nodekey.NodePublic
}

// dial connects to an agent through Coder's relay. The context limits the time until the agent
// responds. It does not limit the connection, which lasts until Close.
//
// A direct connection to the agent is never tried, so sessions need no UDP. The agent can only answer: it cannot
// connect to the operator (onlyOutbound).
func dial(ctx context.Context, client *coderd.Client, id uuid.UUID) (Conn, error) {
	if os.Getenv(mtuVariable) == "" {
		envknob.Setenv(mtuVariable, relayMTU)
	}
	var conn workspacesdk.AgentConn
	op := fmt.Sprintf("connecting to agent %s", id)
	err := client.WithSDK(ctx, op, func(ctx context.Context, sdk *codersdk.Client) (err error) {
		conn, err = dialAgent(ctx, sdk, id)
		if _, noAnswer := errors.AsType[*url.Error](err); err != nil && ctx.Err() != nil && !noAnswer {
			// Coder has answered, but not the agent.
			return &coderd.Error{
				Op: op, Message: fmt.Sprintf("the agent could not be reached through Coder within %s", dialTimeout),
				Detail: err.Error(), Err: ctx.Err(),
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &relayed{conn: conn, agent: agentKey(conn)}, nil
}

// agentKey returns the key of the agent's process. It is zero if Coder has not sent
// one.
func agentKey(conn workspacesdk.AgentConn) nodekey.NodePublic {
	if node := conn.GetPeerDiagnostics().ReceivedNode; node != nil {
		return node.Key
	}
	return nodekey.NodePublic{}
}

func (a *relayed) Check(ctx context.Context) error {
	if now := agentKey(a.conn); !now.IsZero() && now != a.agent {
		return errReplaced
	}
	_, _, _, err := a.conn.Ping(ctx)
	return err
}

// DialSSH connects to the agent's SSH server, which requires no password.
func (a *relayed) DialSSH(ctx context.Context) (net.Conn, error) {
	return a.conn.SSH(ctx) //nolint:wrapcheck // The caller says what it is for.
}

// Dial connects to a TCP port of the agent's own address. The agent forwards ports that it does not
// serve itself to the workspace's loopback address.
//
// An agent that has stopped does not refuse connections, so a timeout is needed. An agent also does
// not answer a connection from a source port of which it remembers an earlier one, which it does for
// a minute after it closed that (TIME-WAIT, RFC 9293). So each attempt has another source port, and
// twice the time of the attempt before.
func (a *relayed) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for timeout := firstAttempt; ; timeout *= 2 {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		conn, err := a.conn.DialContext(attempt, "tcp", fmt.Sprintf("localhost:%d", port))
		unanswered := attempt.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !unanswered {
			return conn, err
		}
	}
}

// Context returns a context that ends when ctx ends or when the connection to the agent has ended.
func (s *Session) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.entry.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Close ends the connection and everything that goes through it.
func (a *relayed) Close() error { return a.conn.Close() }

// pooledTimeout limits how long an existing connection may take for a new session. After that, a
// new connection is opened.
const pooledTimeout = 5 * time.Second

// Dial connects to a TCP port of the workspace's own loopback address. The connection counts as a
// forwarded connection until it is closed, also while the port is checked.
//
// It refuses the ports on which the agent itself serves a shell, files or its state without
// authentication, because a caller may have permission to connect to ports but not to run commands.
func (s *Session) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	p := s.pool
	p.mu.Lock()
	own := &Session{Conn: s.Conn, pool: p, key: s.key, entry: s.entry, use: useForwarded}
	err := p.count(s.entry, useForwarded)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	if err = own.checkPort(ctx, port); err == nil {
		conn, err = own.Conn.Dial(ctx, port)
	}
	if err != nil {
		own.End()
		return nil, err
	}
	return forwardedConn{conn, own}, nil
}

// forwardedConn is a connection to a port, and its session.
type forwardedConn struct {
	net.Conn
	session *Session
}

// CloseWrite closes the write side, if the connection can do that.
func (f forwardedConn) CloseWrite() error {
	if half, ok := f.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (f forwardedConn) Close() error {
	f.session.End()
	return f.Conn.Close()
}

// DialSSH connects to the agent's SSH server. It opens a new connection to the agent if the shared
// one no longer works.
func (s *Session) DialSSH(ctx context.Context) (net.Conn, error) {
	first, cancel := context.WithTimeout(ctx, pooledTimeout)
	defer cancel()
	conn, err := s.Conn.DialSSH(first)
	if err == nil || ctx.Err() != nil {
		return conn, err
	}
	p := s.pool
	p.mu.Lock()
	p.forget(s.key, s.entry)
	p.mu.Unlock()
	again, err := p.Open(ctx, s.key.client, s.key.agent)
	if err != nil {
		return nil, err
	}
	// The new session ends with the broken connection.
	p.mu.Lock()
	s.entry, again.entry = again.entry, s.entry
	s.Conn, again.Conn = s.entry.conn, nil
	p.mu.Unlock()
	go again.End()
	return s.Conn.DialSSH(ctx)
}

// SSH returns a client of the agent's SSH server. The agent's host key is not checked: it is
// derived from public names, and the connection already ends at the agent whose id Coder reported.
func (s *Session) SSH(ctx context.Context) (*ssh.Client, error) {
	conn, err := s.DialSSH(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	client, channels, requests, err := ssh.NewClientConn(conn, "agent", &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()}) //nolint:gosec // See above.
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("opening SSH to the agent: %w", err)
	}
	return ssh.NewClient(client, channels, requests), nil
}

// Relay copies data between an SSH client and the agent's SSH server, until the server closes the
// connection, the context is done, or the client disconnects.
func Relay(ctx context.Context, conn net.Conn, stdin io.Reader, stdout io.Writer) error {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		if _, err := io.Copy(conn, stdin); err != nil {
			_ = conn.Close()
			return
		}
		// Only close the write side, so that the rest of the server's output is not lost.
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err := io.Copy(stdout, conn)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// The ports on which an agent serves its metrics, its state (logs, and the manifest with startup scripts and environment
// variables) and profiles, unless its template has moved or disabled these servers.
const metricsPort, debugPort, profilesPort = 2112, 2113, 6060

// maxPortsBytes limits the agent's list of ports and the header of that response.
const maxPortsBytes = 1 << 20

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
