// Package identity maps a Kubernetes user to an identity in Coder, with the rules of a
// CoderControlPlane.
//
// Invariants:
//   - It makes no requests to Kubernetes or Coder. The caller must check whether the Coder
//     user exists.
//   - The first matching rule decides, even if it yields no valid Coder user: later rules are
//     not tried, and a Problem is never treated as Unmapped.
//   - Equal names have no effect. Only rules map users.
package identity
