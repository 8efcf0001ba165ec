// Package callers accesses the Kubernetes API with the identity of the MCP server's
// callers.
//
// Invariants: every request goes through one transport. It impersonates the caller in the
// request's context (k8s.io/apiserver/pkg/endpoints/request.UserFrom), and sends nothing if
// there is none. Reads go to the API server, never to a cache that was filled with the
// operator's own permissions.
package callers
