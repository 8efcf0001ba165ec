// Package protocol implements the Model Context Protocol: one mcp.Server with the tools
// and prompts of the process, and its HTTP handler at one URL for the protocol
// revisions 2026-07-28 and 2025-11-25.
//
// There are no sessions and no subscriptions, so any replica can answer any request. Only clients
// of 2026-07-28 can be asked to let their user confirm something in a form.
//
// A request passes these steps in this order:
//
//  1. ServeHTTP rejects batches (server.go).
//  2. A panic in a later step ends the request and not the process (middleware.go).
//  3. The caller, the request ID and the logger are added to the context (middleware.go).
//  4. A span begins, in the client's trace if it sent one (middleware.go).
//  5. On the way back, errors are replaced by messages for clients (middleware.go).
//  6. The request is logged, and tool calls are counted (middleware.go).
//  7. A timeout is set, and the request is bound to its connection (middleware.go).
//
// Invariants: a request without a caller reaches the handlers without one. This package
// authorizes nothing: the API server decides when a handler impersonates the caller. Nothing
// of a client is kept after its request, and no goroutine is left behind.
package protocol
