// Package apply writes the objects that the operator owns. It is the only package that does so. It
// uses server-side apply with a fixed field owner, and sends only the fields that the operator
// manages. Fields, labels, annotations and list entries of other clients are kept.
//
// Invariants:
//
//   - Only objects that were handed over (Adopting) are adopted. An existing object that
//     the owner does not hold (Claim) is not changed, and the caller gets a
//     *NotOwnedError. A cache may be stale or contain only part of the cluster. So an apply
//     that is meant to create an object contains a resource version that no object has, with which
//     the API server rejects it if the object exists. Then the object is read from the API server and
//     checked. This is also the case if the response to an earlier apply was lost. An apply
//     to an existing object contains its uid, so that it cannot change a replacement with
//     the same name.
//   - The returned object is never older than the last apply. If the cache is older, the
//     API server is asked.
//   - Nothing is written if nothing would change. The Applier remembers the last applied
//     object and the fields that it owned afterwards. While the desired object is the same
//     and the operator still owns the same fields, no client changed them: a client that
//     changes a field takes over its ownership, and a removed field has no owner.
package apply
