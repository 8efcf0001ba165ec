// Package metadata defines the metadata of workspaces and templates that Kubernetes needs and Coder
// cannot store: labels, annotations, finalizers, owner references, managed fields, generation,
// deletion, and changes that have not been applied in Coder yet.
//
// It owns the form of this metadata, its overlay on an object, and the garbage collector of records
// (GarbageCollector). The metadata of an object is stored in the object's custom resource of
// internal.coder.com (package records).
//
// Invariants:
//   - For an object that has none of this metadata, nothing is kept.
//   - A record belongs to an ID in Coder, not to a name: it stays with the object after a
//     rename.
//   - Every replica reads and writes. Each write contains the version that was read, and
//     fails if the record was changed since.
//   - A record is deleted with its control plane, or after its object is certainly gone.
package metadata
