// Package agents holds the connections to the agents of workspaces and runs commands
// through them.
//
// A session is one use of a connection: a command, or a forwarded TCP connection.
// Sessions of the same agent share one connection. The first session opens it, and it
// is closed after no session used it for a while. Nothing is opened before.
//
// Invariants:
//
//   - A connection belongs to one coderd.Client. A Coder that claims the agent id of
//     another Coder therefore never gets its connection.
//   - The number of sessions is limited, for the process and for an agent.
//   - Dial never reaches a port that the agent serves itself, where it asks for no
//     password. Only DialSSH and SSH do, for callers who may run commands.
//   - Close ends all sessions.
package agents
