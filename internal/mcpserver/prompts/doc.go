// Package prompts contains the prompts of the MCP server. A prompt contains the data that a model
// would otherwise have to request with its first tool calls.
//
// Everything is read with the caller's permissions, at the time of the request. Any error is one
// sentence. The data in a prompt is in fenced blocks that are marked as data, and no text in it can
// end its block.
package prompts
