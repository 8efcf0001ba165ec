// Package mcpserver serves the Model Context Protocol at /mcp. Through it, an AI tool can
// inspect and repair Coder on Kubernetes, with exactly the permissions of the user whose
// token it sends.
//
// This package contains the settings, the listener, the readiness check and the shutdown.
// It combines the packages gate (HTTP middleware), identity (authentication), protocol (the
// MCP protocol with tools, prompts and resources) and callers (impersonating Kubernetes
// client).
//
// Invariants:
//   - A request reaches the protocol only through all checks of gate and identity. Only
//     the probes and the metadata for clients need no authentication.
//   - Tools impersonate the caller. The server's own permissions are for TokenReviews and
//     SubjectAccessReviews, for listing the namespaces of control planes, and for the
//     Secret that its replicas share. hack/generate generates them into config/rbac/mcp
//     from the permissions that tools, prompts and resources declare, so that those of a
//     new tool cannot be forgotten.
//   - Without sessions, no state outlives a request, so any replica can answer any
//     request, for the protocol revisions 2025-11-25 and 2026-07-28.
//   - The shutdown takes at most eight seconds, whatever clients do.
package mcpserver
