// Package mcpgo tests a running MCP server with mcp-go, a client library that
// shares no code with the library of the server.
//
// It is a separate module, so that builds of the operator do not download mcp-go.
// test/conformance/realserver starts the server and calls this package with the
// build tag conformance; MCP_URL, MCP_TOKEN, MCP_NAMESPACE, MCP_TOOLS and
// MCP_WORKSPACES describe the server and its objects.
package mcpgo
