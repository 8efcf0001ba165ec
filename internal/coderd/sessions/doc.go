// Package sessions manages the short-lived tokens with which callers act as their own Coder users.
// A session in this package is one Coder user of one control plane, on this replica, with its
// token.
//
// Invariants:
//   - A token lives at most Lifetime, is only in the memory of this process, and is never
//     logged. Its name in Coder identifies the replica, and is unique.
//   - It is created by the operator's account, and used only for requests as its user.
//   - It is revoked, with itself, when spec.identity of its control plane changes, when the
//     control plane is deleted, and when the process shuts down cleanly. Otherwise it
//     expires.
//   - An idle session makes no requests to Coder: a token is renewed only when it is used.
package sessions
