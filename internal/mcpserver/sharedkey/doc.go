// Package sharedkey owns the Secret coder-k8s-mcp, in which the replicas of the MCP
// server share the key that seals questions to users.
//
// Invariants: the key is made by whichever replica needs it first and is never
// logged. Where the Secret cannot be had, there is a key all the same, of this
// process alone: what it seals is then good on this replica only, and the log says
// so once.
package sharedkey
