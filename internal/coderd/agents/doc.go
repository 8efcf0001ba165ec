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
//   - Session.Dial refuses the ports that the agent serves itself, which require no password. Only
//     DialSSH and SSH connect to them, for callers with permission to run commands.
//   - Messages of Coder with which its library would panic in a goroutine do not reach the library.
//   - Close ends all sessions.
package agents
