// Package identity finds out who calls the MCP server, from the bearer token of
// each request, and lets in only who may enter.
//
// Invariants: a token ends here. It is checked, and then taken off the request;
// it is never logged, never sent anywhere but to the one that checks it, and kept
// only as a keyed hash. What cannot be found out is answered with 503, never with
// a guess. A request does not outlive the token that it came with.
package identity
