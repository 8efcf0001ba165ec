// Package ownsecret reads and writes the Secrets of one object. Their content exists nowhere else:
// it is a token or a key that was returned only once.
//
// Invariants:
//
//   - Secrets are read without a cache, because a stale Secret could lead to a second
//     token. So the client must be uncached.
//   - A write fails if the Secret was changed since it was read, and a deletion fails if
//     the Secret was replaced. The package does not retry.
//   - No Secret is adopted. A Secret belongs to the object that controls it. The caller
//     must check that this is the owner (Mine) before it writes.
//   - No error contains a value of a Secret.
package ownsecret
