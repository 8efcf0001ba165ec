// Package callers knows who calls the MCP server, what they may do, and how to access the
// Kubernetes API as them.
//
//   - Authenticator checks the bearer token of each request (tokens.go, issuer.go), and with a
//     SubjectAccessReview whether its user may use the MCP server. The caches of both are those
//     of k8s.io/apiserver. It reads no header of a front proxy, and no client certificate.
//   - Kube is the client that impersonates the caller in the request's context
//     (k8s.io/apiserver/pkg/endpoints/request.UserFrom).
//   - Quota bounds the concurrent operations of each user.
//
// Invariants:
//   - A token is not passed on. It is checked and then removed from the request. It is never
//     logged, it is sent only to the authenticator, and it is cached only as a keyed hash. The
//     key of confirmations is derived from it one way. A request does not outlive its token.
//   - If the check of a token or of the access to the server fails with an error, the
//     response is 503.
//   - Every request to Kubernetes goes through one transport, which sends nothing without a
//     caller. Reads go to the API server, never to a cache that was filled with the
//     operator's own permissions.
//   - This package grants nothing. The API server authorizes each call again, because the
//     call impersonates the caller. Results are cached for a few seconds; an error is never
//     cached.
package callers
