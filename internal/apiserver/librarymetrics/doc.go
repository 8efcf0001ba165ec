// Package librarymetrics selects the exported metrics of k8s.io/apiserver, the library of the
// aggregated API. The library has them in a registry of its own, together with a hundred others.
//
// Invariants:
//   - Only the families of an allow-list are exported.
//   - The number of series does not depend on the paths of requests: a series with a group,
//     resource or subresource that is not served is dropped.
package librarymetrics
