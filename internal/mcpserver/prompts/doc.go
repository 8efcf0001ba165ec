// Package prompts provides MCP prompts that contain their data, which a model would
// otherwise have to request with its first tool calls.
//
// Invariants: the data is read with the caller's permissions and limited in size. It is in
// fenced blocks that are marked as data, and no text in it can end its block. An error is
// one sentence.
package prompts
