// Package mcptest provides what tests of several packages of the MCP server need: a log
// buffer, metrics as text, a proxy for its requests, and a workspace in which commands run on this machine,
// with real shells and real files.
package mcptest
