// Package tools contains the tools of the MCP server, one file per noun.
//
// A tool is a function from an input struct to an output struct. Its name, its annotations
// and the permissions that it uses are declared in the add function of its noun. The complete
// list, as a client sees it, is in testdata/tools.golden.json; a test limits its size. The
// server's own ClusterRole is generated from the permissions (hack/generate).
//
// Invariants: a tool accesses Kubernetes only through the client in its toolset.Call, which
// impersonates the caller. Lists are paginated. An error is one sentence from which a model
// can see what to do differently; it contains no stack trace, no address and no secret. No
// slice in an answer is null.
package tools
