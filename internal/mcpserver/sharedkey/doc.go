// Package sharedkey manages the Secret coder-k8s-mcp. It contains the key with which all
// replicas of the MCP server sign questions to users.
//
// Invariants: the first replica that needs the key creates it. The key is never logged. If
// the Secret cannot be read or created, a key of this process is used: its signatures are
// valid only on this replica, which is logged once.
package sharedkey
