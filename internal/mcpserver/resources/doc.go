// Package resources provides objects of the cluster as MCP resources: control planes with
// their pods and events, workspaces with the log of their newest build, and templates with
// their files. It also completes the arguments that name these objects. Its prompts (RegisterPrompts) contain the data that a
// model would otherwise have to request with its first tool calls.
//
// Invariants: everything is read with the caller's permissions, at the time of the request.
// An answer has at most 256 KiB and says if something was left out. Pods and Events have the
// form in which the tools return them. Values of environment
// variables, of Terraform variables and of program arguments are never shown
// (redaction.go). For an object that does not exist, the error is ResourceNotFoundError;
// any other error is one sentence. An answer says that its texts are data, except the file of a template, which clients
// use as it is. The data in a prompt is in fenced blocks that are marked as data, and no text in it
// can end its block.
package resources
