// Package toolset runs the tools: it registers a function from one struct to another as a
// tool of the protocol, decides which tools are offered, and provides each call with its
// client, confirmation, progress notifications and waiting.
//
// Add adds a tool to a Set, Filter removes the tools that are not offered, and Register
// registers the rest with an MCP server. A Call impersonates its caller.
//
// Invariants: a tool that is not offered cannot be called. The client of a tool that only
// reads rejects every write. Arguments are validated against the schema before the tool
// runs. An answer contains no null and at most maxAnswerBytes. An error is one sentence
// without addresses, stack traces or secrets; unexpected errors are only logged.
package toolset
