// Package sessions manages the short-lived tokens with which callers act as their own Coder users.
// In this package a session is one Coder user of one control plane, on this replica, with the
// user's token.
//
// Invariants:
//   - A token lives at most Lifetime, is stored only in the memory of this process, and is never
//     logged. Its name in Coder identifies the replica and is unique.
//   - The operator's account creates it. It is used only for requests as its user.
//   - It is revoked, authenticated with itself, when spec.identity of its control plane changes,
//     when the control plane is deleted, and when the process stops gracefully. Otherwise it
//     expires.
//   - An idle session sends no requests to Coder: a token is renewed only when it is used.
package sessions
