// Package mcpgo talks to a running MCP server with mcp-go, a client library that
// shares no code with the one of which the server is made.
//
// It is a module of its own, so that nobody who builds the operator downloads
// mcp-go. test/conformance/realserver starts the server and calls this package
// with the build tag conformance; MCP_URL, MCP_TOKEN, MCP_NAMESPACE, MCP_TOOLS and
// MCP_WORKSPACES say what there is.
package mcpgo
