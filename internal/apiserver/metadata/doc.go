// Package metadata defines the names of the aggregated API's objects, and the metadata of these
// objects that Kubernetes needs and Coder cannot store: labels, annotations, finalizers, owner
// references, managed fields, generation, deletion, and changes that have not been applied in Coder
// yet.
//
// It owns the form of this metadata, its overlay on an object, and the garbage collector of records
// (GarbageCollector). The metadata of an object is stored in the object's custom resource of
// internal.coder.com (package records).
//
// The name of a template is <organization>.<template>, of a workspace
// <organization>.<user>.<workspace>, and of a user <user>. All names begin with
// status.objectNamePrefix of their control plane, which may be empty. Names in Coder contain no dot,
// so the number of dots determines the form.
//
// Invariants:
//   - An object's name is always in lower case, because Kubernetes names are DNS names. Coder
//     ignores case when it compares names, and may store upper case. So a name with upper case
//     never names an object.
//   - For an object that has none of this metadata, nothing is kept.
//   - A record belongs to an ID in Coder, not to a name: it stays with the object after a
//     rename.
//   - Every replica reads and writes. Each write contains the version that was read, and
//     fails if the record was changed since.
//   - A record is deleted with its control plane, or after its object is certainly gone.
package metadata
