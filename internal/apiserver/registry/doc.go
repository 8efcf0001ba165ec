// Package registry implements what the kinds of the aggregated API share: the REST verbs, the Gate
// that checks whether a request can be served, and the parts of a kind.
//
// Each kind has a subpackage. Its kind.go has the ResourceInfo, which describes names, columns and
// selectors, and a Kind that embeds Base. The rest of the subpackage is its strategy (defaults and
// validation), its conversion from the Coder API, its writes to Coder, and its subresources.
//
// Invariants:
//   - The verbs are those of the library's Store. For a control plane that was never read,
//     the Gate returns 503, never 404 and never an empty list. A namespace without a
//     control plane has no objects. This answer does not depend on the sync status.
//   - Nothing is deleted in Coder for a namespace that is being deleted: see REST.Delete in rest.go
//     and Gate.nothing in gate.go, namespaces.go in package apiserver, and release.go in package
//     mirror.
//   - A dry run sends the same read requests to Coder as the write, and writes nothing.
package registry
