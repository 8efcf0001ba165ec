// Package protocol implements the Model Context Protocol: one mcp.Server with the tools,
// prompts and resources of the process, and its HTTP handler at one URL for protocol
// revisions with and without sessions.
//
// A client of revision 2026-07-28 needs no session. A client of 2025-11-25 gets a session
// only if sessions are enabled; only in a session can the server ask that client's user for
// input.
//
// A request passes these steps in this order:
//
//  1. ServeHTTP rejects batches and selects the handler with or without sessions
//     (server.go, sessions.go).
//  2. A panic in a later step ends the request and not the process (middleware.go).
//  3. The caller, the request ID and the logger are added to the context (middleware.go).
//  4. A span begins, in the client's trace if it sent one (middleware.go).
//  5. On the way back, errors are replaced by messages for clients (audit.go).
//  6. The request is logged, and tool calls are counted (audit.go).
//  7. A timeout is set, and the request is bound to its connection (middleware.go).
//  8. Subscriptions are authorized and start to watch (subscriptions.go). On the way back,
//     sessions are counted (sessions.go), and the list of tools is filtered by the caller's
//     permissions (lists.go).
//
// Invariants: a request without a caller reaches the handlers without one, and never with
// the caller of an earlier request of the session. This package authorizes nothing: the API
// server decides when a handler impersonates the caller. The state of a client is limited
// by Config. It is removed when the client disconnects, its token expires or Close is
// called, and no goroutine is left behind.
package protocol
