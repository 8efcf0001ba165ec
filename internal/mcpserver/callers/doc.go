// Package callers talks to Kubernetes as the caller of the MCP server.
//
// Invariants: every request goes through one transport that impersonates the
// caller of its context (k8s.io/apiserver/pkg/endpoints/request.UserFrom) and
// sends nothing where there is none. Reads are direct, never from a cache of the
// operator's own rights.
package callers
