// Package identity authenticates the callers of the MCP server by the bearer token of each
// request, and authorizes their access to the server.
//
// Invariants: a token is not passed on. It is checked and then removed from the request. It
// is never logged, it is sent only to the authenticator, and it is cached only as a keyed
// hash. If a check fails with an error, the response is 503. A request does not outlive its
// token.
package identity
