package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/google/uuid"
	"tailscale.com/envknob"
	nodekey "tailscale.com/types/key"

	"github.com/coder/coder/v2/codersdk"
	"github.com/coder/coder/v2/codersdk/workspacesdk"

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
// A direct connection to the agent is never tried. Therefore the operator needs no UDP, a network
// policy that allows it to reach Coder is enough, and a Coder cannot make it send packets to
// addresses of its choice.
func dial(ctx context.Context, client *coderd.Client, id uuid.UUID) (Conn, error) {
	if os.Getenv(mtuVariable) == "" {
		envknob.Setenv(mtuVariable, relayMTU)
	}
	var conn workspacesdk.AgentConn
	err := client.WithSDK(ctx, fmt.Sprintf("connecting to agent %s", id), func(ctx context.Context, sdk *codersdk.Client) (err error) {
		conn, err = workspacesdk.New(sdk).DialAgent(ctx, id, &workspacesdk.DialAgentOptions{BlockEndpoints: true})
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

// Check implements Conn.
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
func (a *relayed) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	// An agent that has stopped does not refuse connections, so a timeout is needed.
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return a.conn.DialContext(ctx, "tcp", fmt.Sprintf("localhost:%d", port))
}

// Close ends the connection and everything that goes through it.
func (a *relayed) Close() error { return a.conn.Close() }
