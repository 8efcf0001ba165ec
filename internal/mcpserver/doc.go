// Package mcpserver serves the Model Context Protocol at /mcp, so that an AI
// tool can look at and mend Coder on Kubernetes with exactly the rights of the
// person who gave it a token.
//
// It owns the settings, and puts the parts together: gate (the steps over HTTP),
// identity (who calls), protocol (both eras, tools, prompts, resources), callers
// (Kubernetes as the caller). It owns the listener, its readiness and its end.
//
// Invariants:
//   - Nothing reaches the protocol that did not pass all steps of the gate and of
//     identity; probes and the metadata for clients are all that does without.
//   - What tools do is done as the caller. The server's own rights are for reviews
//     of tokens and of access, for where control planes are, and for the one Secret
//     that its replicas share. hack/mcprole writes them into config/rbac/mcp from
//     what tools, prompts and resources name, so that a new one cannot be forgotten.
//   - Without sessions no state outlives a request, so any replica can answer any of
//     them, in both protocol eras (2025-11-25 and 2026-07-28).
//   - The end takes at most eight seconds, whatever clients do.
package mcpserver
