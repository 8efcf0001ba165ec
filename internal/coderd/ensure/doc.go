// Package ensure is the common part of the packages that create something in Coder exactly once: the
// operator's access, licenses, provisioner keys and workspace proxies.
//
// Each of them has a Manager whose Ensure runs a pass: it compares the spec with Coder and corrects
// Coder. A crash at any point of a pass is completed by a later one. This package provides
//
//   - Result, which each Manager extends, and Stop, the error that ends a pass before it is Ready.
//     Every other error comes from the Kubernetes API and is to be retried with backoff.
//   - Answers, the table with which a package maps the errors of Coder to Stops.
//   - Cache, the verified responses of Coder, so that a pass that changes nothing makes no request.
//
// Invariants: the package makes no request, and contains no rule of one Manager.
package ensure
