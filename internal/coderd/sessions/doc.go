// Package sessions owns the short-lived tokens with which callers act as their own Coder
// users. In this package a session is one Coder user of one control plane, on this
// replica, with its token.
//
// Invariants:
//   - A token lives at most Lifetime, is in the memory of this process alone, and is never
//     logged. Its name in Coder tells the replica, and is unique.
//   - It is made by the operator's account and used for nothing but requests as its user.
//   - It is revoked, with itself, when spec.identity of its control plane changes, when the
//     control plane goes, and when the process ends cleanly. Otherwise it expires.
//   - At rest Coder is not asked: a token is renewed only when it is used.
package sessions
