// Package registry holds what the kinds of the aggregated API have in common:
// their REST verbs, their storage, and how much of Kubernetes' metadata is kept.
//
// A kind is a package below: its strategy (defaults and validation), its table,
// its conversion from what Coder tells, and its backend.
//
// Invariants:
//   - The verbs are those of the library's Store, but for watch, which is not
//     offered: a watch over storage without history could only lie. So discovery
//     does not list it, and controllers that need it leave the kinds alone.
//   - A dry run asks Coder the questions that the write would ask, and writes
//     nothing.
//   - Labels, annotations, finalizers and owner references of users are not
//     kept, and a Warning says so.
package registry
