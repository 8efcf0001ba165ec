// Package metrics counts what the MCP server does, for Prometheus.
//
// It owns the names and labels of the series and keeps their number bounded: what
// a client can make up, such as the name of a tool or an HTTP method, becomes a
// label only where it is known.
package metrics
