// Package registry holds what the kinds of the aggregated API have in common:
// their REST verbs, and the Gate in front of them.
//
// A kind is a package below: its strategy (defaults and validation), its table,
// its conversion from what Coder tells, its writes to Coder, and its subresources.
//
// Invariants:
//   - The verbs are those of the library's Store. The Gate lets nothing be told of a
//     control plane that was not read yet: 503, never 404 and never an empty list. A
//     namespace without a control plane has nothing, at once and in every state.
//   - Nothing is destroyed in a namespace that is being deleted.
//   - A dry run asks Coder the questions that the write would ask, and writes
//     nothing.
package registry
