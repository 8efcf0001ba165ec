// Package records is a storage.Interface whose objects are custom resources: one
// record for each served object, in kube-apiserver and its etcd.
//
// It owns the form of a record, the requests to kube-apiserver about it, and the Table:
// what this replica has seen of all records of a kind.
//
// Invariants:
//   - A revision is etcd's. A record is written with the revision that the write was
//     decided on, so nobody overwrites what is newer, however late a write comes.
//   - A record has the namespace and the name of its object, for as long as the
//     object lives. So the keys of objects sort as those of records do, and a
//     continue token of one is one of the other.
//   - A consistent read shows every write that was acknowledged before it began, by
//     whichever replica: it waits until the watch of this replica has shown a
//     heartbeat that was written after it began.
//   - Of two states of a record the one with the greater revision is the newer one,
//     wherever it was learned.
//   - A record whose text cannot be read affects no other object (damaged.go).
//   - What kube-apiserver does not answer is 503 with Retry-After, and never an
//     absence. A creation that may have happened is 504 without it.
package records
