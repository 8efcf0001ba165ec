// Package mcptest provides what tests of the MCP server need, here and in test/: the one client over HTTP
// (Endpoint, and Message for what the SDK does not send), one in memory (Connect), a log
// buffer, metrics as text, a proxy for its requests, and a workspace in which commands run on this machine,
// with real shells and real files.
package mcptest
