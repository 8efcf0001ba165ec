// Package protocol speaks the Model Context Protocol: one mcp.Server with the
// tools, prompts and resources of the process, and its HTTP handler at one URL
// for both eras of the protocol.
//
// A client of 2026-07-28 needs no session. Neither does one of 2025-11-25,
// unless sessions are switched on: then it gets one, because only in a session
// can the server ask its user something.
//
// What happens to a request, in this order:
//
//  1. ServeHTTP refuses batches and chooses the era (server.go, sessions.go).
//  2. A panic in anything below ends the request and not the process (guard.go).
//  3. The caller, the request id and the logger enter the context (caller.go).
//  4. A span begins, in the trace of the client where it has one (trace.go).
//  5. On the way back, errors become sentences for clients (sentences.go).
//  6. One line is written about what was done, and one call counted (audit.go).
//  7. The work is bounded in time, and ends with the connection (deadline.go).
//  8. Subscriptions are authorised and begin to watch (subscriptions.go).
//  9. On the way back, sessions are counted (sessions.go) and the list of tools is
//     cut to those that the caller may use (toollist.go).
//
// Invariants: a request without a caller reaches the handlers without one, and
// never with that of an earlier request of the session. Nothing is authorised
// here: the API server decides when a handler acts as the caller. What the
// server keeps of a client is bounded by the caps of Config, ends with the
// client, with its token or with Close, and leaves no goroutine behind.
package protocol
