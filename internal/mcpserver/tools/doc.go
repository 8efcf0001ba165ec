// Package tools holds the tools of the MCP server, one file per noun.
//
// A tool is a function from an input struct to an output struct; its name, its
// annotations, the rights that it uses and its arguments stand beside it. The whole
// list, as a client sees it, is in testdata/tools.golden.json; a test limits its size.
// The server's own ClusterRole follows from the rights (hack/mcprole).
//
// Invariants: a tool talks to Kubernetes only through the client that it is
// given, which acts as the caller. Its lists come in pages. Its errors are one
// sentence from which a model can see what to do differently; they hold no
// stack, no address and no secret. No slice in an answer is null.
package tools
