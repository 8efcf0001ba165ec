// Package records implements storage.Interface with custom resources: each served object has one
// record in kube-apiserver and its etcd.
//
// It owns the format of a record, the requests to kube-apiserver for records, and the Table: the
// records of a kind that this replica has seen.
//
// Invariants:
//   - A revision is etcd's. A record is written with the revision that the write is based
//     on, so a write never overwrites newer data, however late it arrives. A write that
//     would change nothing is decided on the newest object.
//   - The state in Coder is part of the optimistic lock: if the Writer finds a newer object there, it is stored, and
//     the write is decided again (NewerError).
//   - A record has the namespace and the name of its object as long as the object exists.
//     So the keys of objects and of records have the same order, and a continue token of
//     one is valid for the other.
//   - A consistent read returns every write that any replica acknowledged before the read
//     began: it waits until the watch of this replica has received a heartbeat that was
//     written after the read began, or it reads the records, or the revision of a record
//     to compare it with the known one.
//   - A replica that changes an object in Coder first writes its claim into the record.
//     While a claim is respected, no other replica writes the record, also if it sees the
//     claim only after it has decided.
//   - Of two states of a record, the one with the greater revision is newer, regardless of
//     its source.
//     If a quorum read or a write returns a lower revision than an earlier one, etcd was
//     restored from a backup: WaitRestored returns an error, and the process ends.
//   - A record whose text cannot be decoded, and one that kube-apiserver does not accept,
//     affect no other object (fault.go). An object that is too large is stored without the
//     fields that describe it (size.go).
//   - One id of a control plane has one record. If several are found, they are read-only
//     until the mirror has removed all but one.
//   - If kube-apiserver does not respond, the error is 503 with Retry-After, and never
//     NotFound. A creation that may have succeeded, and a change whose record was
//     overwritten, is 504 without Retry-After.
package records
