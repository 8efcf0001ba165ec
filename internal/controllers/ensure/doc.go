// Package ensure is the common part of the packages that create something in Coder exactly once: the
// operator's access, licenses, provisioner keys and workspace proxies.
//
// Each of them has a Manager whose Ensure runs a pass: it compares the spec with Coder and corrects
// Coder. A crash at any point of a pass is completed by a later one. This package provides
//
//   - Result, which each Manager extends, except that of provisioner keys, whose result is a list of
//     conditions. Stop is the error that ends a pass before it is Ready. The steps of the controllers
//     end with the same error. Every other error comes from the Kubernetes API and is to be retried
//     with backoff.
//   - Answers, the table with which a package maps the errors of Coder to Stops.
//   - Cache, the verified responses of Coder, so that a pass that changes nothing makes no request.
//   - Secrets, which hold what Coder returned only once: a token or a key. Annotations of the Secret
//     record what was created, or is about to be created, in Coder.
//
// # Invariants
//
//   - The package makes no request to Coder, and contains no rule of one Manager.
//   - Secrets are read without a cache, because a stale Secret could lead to a second token. So the
//     client must be uncached.
//   - A write of a Secret fails if it was changed since it was read, and a deletion fails if the
//     Secret was replaced. The package does not retry.
//   - No Secret is adopted. A Secret belongs to the object that controls it. The caller must check
//     that this is the owner (Mine) before it writes.
//   - No error contains a value of a Secret.
package ensure
