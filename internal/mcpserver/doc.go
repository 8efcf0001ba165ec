// Package mcpserver serves the Model Context Protocol at /mcp, so that an AI
// tool can look at and mend Coder on Kubernetes with exactly the rights of the
// person who gave it a token.
//
// A request passes these steps, in this order: recovery from a panic, request
// id and access log, size limit, Host and Origin check, TokenReview, the right
// to post to /mcp (SubjectAccessReview), and only then the protocol. The tools
// themselves are in the package tools.
//
// Invariants:
//   - There is no way in without a bearer token whose audience is coder-k8s-mcp.
//     The token is shown to the TokenReview API and to nobody else; it is not
//     logged, and the caches keep only a keyed hash of it.
//   - Every call to Kubernetes on behalf of a caller goes through one transport
//     that impersonates the caller of the context and refuses to send anything
//     where there is none. Reads are direct, never from a cache of the operator's
//     own rights.
//   - No state outlives a request, so any replica can answer any of them, in both
//     protocol eras (2025-11-25 and 2026-07-28).
package mcpserver
