// Package identity decides who a Kubernetes user is in a Coder, by the rules of a
// CoderControlPlane.
//
// Invariants:
//   - It is pure: it asks neither Kubernetes nor Coder. Whether the Coder user exists is
//     found out by the caller.
//   - The first rule that matches decides, also if no Coder user can be made of it: later
//     rules are not tried, and a Problem is never taken for "unmapped".
//   - Equal names mean nothing. Only a rule maps.
package identity
