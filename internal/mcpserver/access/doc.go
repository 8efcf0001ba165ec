// Package access checks with the API server what a caller may do: whether the caller may
// use the MCP server, and which permissions it has in any namespace, so that tools without
// permission are hidden.
//
// Invariants: this package grants nothing. The API server authorizes each call again,
// because the call impersonates the caller. If a check fails with an error, access to the
// server is denied, and tools are shown. Results are cached for a few seconds.
package access
