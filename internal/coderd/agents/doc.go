// Package agents holds the connections to the agents of workspaces and runs commands through them.
//
// A session is one use of a connection: a command, a port forward, or one of its TCP connections.
// Sessions of the same agent share one connection. The first session opens it. It is closed after it
// has had no session for two minutes (idleTimeout).
//
// Invariants:
//
//   - A connection belongs to one coderd.Client. If a Coder claims the agent id of another Coder,
//     it never gets the other's connection.
//   - The number of sessions is limited, per process and per agent. The connections that forwards open have
//     the same limits of their own.
//   - A connection is outbound: of what the agent sends, only answers reach the network stack, which would otherwise
//     connect the agent to the operator's own loopback address.
//   - Coder's library gets no address of a relay or a STUN server. This package connects to Coder's own relay where the operator
//     reaches Coder, and to others only at addresses that coderd.RestrictedTransport permits.
//   - Session.Dial refuses the ports that the agent serves itself, which require no password, as far as they are
//     known. Only DialSSH and SSH connect to them, for callers with permission to run commands.
//   - Messages of Coder with which its library would panic in a goroutine do not reach the library.
//   - Close ends all sessions.
package agents
