package agents

import (
	"context"
	"fmt"
	"net"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/coder/coder/v2/codersdk"
	"github.com/coder/coder/v2/codersdk/workspacesdk"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// relayed is a connection through Coder's relay. It is safe for concurrent use.
type relayed struct {
	conn workspacesdk.AgentConn
}

// dial connects to an agent through Coder's relay. The context limits the time
// until the agent answers, and not the connection, which lasts until Close.
//
// A direct connection to the agent is never tried: the operator then needs no UDP, a
// network policy that lets it reach Coder is enough, and a Coder cannot make it send
// packets to addresses of its choice.
func dial(ctx context.Context, client *coderd.Client, id uuid.UUID) (Conn, error) {
	var conn workspacesdk.AgentConn
	err := client.WithSDK(ctx, fmt.Sprintf("connecting to agent %s", id), func(ctx context.Context, sdk *codersdk.Client) (err error) {
		conn, err = workspacesdk.New(sdk).DialAgent(ctx, id, &workspacesdk.DialAgentOptions{BlockEndpoints: true})
		return err
	})
	if err != nil {
		return nil, err
	}
	return &relayed{conn: conn}, nil
}

// SSH opens a connection to the agent's SSH server, which lets in without a password
// whoever reaches it.
func (a *relayed) SSH(ctx context.Context) (*ssh.Client, error) {
	return a.conn.SSHClient(ctx) //nolint:wrapcheck // The caller says what it is for.
}

// Dial connects to a TCP port of the workspace's own loopback address.
func (a *relayed) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	return a.conn.DialContext(ctx, "tcp", fmt.Sprintf("localhost:%d", port))
}

// Close ends the connection and everything that goes through it.
func (a *relayed) Close() error { return a.conn.Close() }
