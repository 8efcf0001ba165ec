package coderd

import (
	"context"
	"fmt"
	"net"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/coder/coder/v2/codersdk/workspacesdk"
)

// AgentConn is a connection to the agent of a workspace. It is safe for concurrent
// use.
type AgentConn struct {
	conn workspacesdk.AgentConn
}

// DialAgent connects to an agent through Coder's relay. The context limits the time
// until the agent answers, and not the connection, which lasts until Close.
//
// A direct connection to the agent is never tried: the operator then needs no UDP, a
// network policy that lets it reach Coder is enough, and a Coder cannot make it send
// packets to addresses of its choice.
func (c *Client) DialAgent(ctx context.Context, id uuid.UUID) (*AgentConn, error) {
	var conn workspacesdk.AgentConn
	err := c.call(ctx, fmt.Sprintf("connecting to agent %s", id), func(ctx context.Context) (err error) {
		conn, err = workspacesdk.New(c.streams).DialAgent(ctx, id, &workspacesdk.DialAgentOptions{BlockEndpoints: true})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &AgentConn{conn: conn}, nil
}

// SSH opens a connection to the agent's SSH server, which lets in without a password
// whoever reaches it.
func (a *AgentConn) SSH(ctx context.Context) (*ssh.Client, error) { return a.conn.SSHClient(ctx) }

// Dial connects to a TCP port of the workspace's own loopback address.
func (a *AgentConn) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	return a.conn.DialContext(ctx, "tcp", fmt.Sprintf("localhost:%d", port))
}

// Close ends the connection and everything that goes through it.
func (a *AgentConn) Close() error { return a.conn.Close() }
