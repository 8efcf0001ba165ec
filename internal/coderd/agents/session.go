package agents

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/coder/coder/v2/codersdk/workspacesdk"
)

// pooledTimeout limits how long an existing connection may take for a new session. After that, a
// new connection is opened.
const pooledTimeout = 5 * time.Second

// Dial connects to a TCP port of the workspace's own loopback address.
//
// It refuses the ports on which the agent serves a shell, files and its own HTTP API without
// authentication, because a caller may have permission to connect to ports but not to run commands.
func (s *Session) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if port < workspacesdk.AgentMinimumListeningPort || port == workspacesdk.AgentStandardSSHPort {
		return nil, fmt.Errorf("port %d belongs to the agent itself, which runs commands there without a password: "+
			"use the subresource exec, as kubectl coder ssh does", port)
	}
	return s.Conn.Dial(ctx, port)
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
	s.Broken()
	again, err := s.pool.Open(ctx, s.key.client, s.key.agent)
	if err != nil {
		return nil, err
	}
	s.pool.swap(s, again)
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
