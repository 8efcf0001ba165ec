// Package registry implements what the kinds of the aggregated API share: the REST verbs, and the
// Gate that checks whether a request can be served.
//
// Each kind has a subpackage with its strategy (defaults and validation), its table, its conversion
// from the Coder API, its writes to Coder, and its subresources.
//
// Invariants:
//   - The verbs are those of the library's Store. For a control plane that was never read,
//     the Gate returns 503, never 404 and never an empty list. A namespace without a
//     control plane has no objects. This answer does not depend on the sync status.
//   - Nothing is deleted in Coder for a namespace that is being deleted.
//   - A dry run sends the same read requests to Coder as the write, and writes nothing.
package registry
