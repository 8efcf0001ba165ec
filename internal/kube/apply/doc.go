// Package apply is the one path by which the operator writes the objects that
// it owns: server-side apply with a fixed field owner, of exactly the fields
// that the operator means. Fields, labels, annotations and list entries of
// others survive.
//
// Invariants:
//
//   - Nothing is adopted that was not handed over (Adopting). An object of the same
//     name that is not already the owner's (Claim) is left as it is, and the caller
//     gets a *NotOwnedError. A
//     cache may be behind or hold only a part of the cluster, so absence is
//     believed only when the API server itself says so; and an apply to an object
//     that exists carries its uid, so that it cannot hit one that took its place.
//     Between that read and the apply that creates an object, somebody else may
//     create it: where theirs has a controller the API server refuses a second
//     one.
//   - What is told of an object is not older than the last apply: where a cache shows
//     the one before, the API server is asked.
//   - Nothing is written when nothing would change. The Applier remembers what it
//     applied last and which fields it owned after that. While the desired object
//     is the same and it still owns the same fields, nobody changed them: to
//     change a field is to take it over, and to remove one is to disown everybody.
package apply
