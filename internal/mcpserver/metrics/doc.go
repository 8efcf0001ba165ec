// Package metrics contains the Prometheus metrics of the MCP server.
//
// It owns the names and labels of the series and limits their number: values that a client
// can choose, such as the name of a tool or an HTTP method, become a label only if they are
// known.
package metrics
