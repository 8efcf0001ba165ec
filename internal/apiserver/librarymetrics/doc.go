// Package librarymetrics chooses what is told of the metrics of k8s.io/apiserver, the
// library that the aggregated API is made of. The library keeps them in a registry of
// its own, with some hundred others.
//
// Invariants:
//   - Only the families of a list are told.
//   - The number of series does not depend on what callers write into a path: a series
//     that names another group, resource or subresource than those that are served is
//     left out.
package librarymetrics
