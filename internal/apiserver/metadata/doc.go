// Package metadata keeps what Kubernetes knows of workspaces and templates and
// Coder has no place for: labels, annotations, finalizers, owners, managed
// fields, generation, deletion, and what is still to be done.
//
// It owns the custom resource CoderObjectMetadata (internal.coder.com), one for
// each object that has any of it, in the namespace of the object.
//
// Invariants:
//   - An object without anything to keep has no record and costs nothing.
//   - A record belongs to an id in Coder, not to a name: it follows a rename.
//   - Every replica reads, only the writer writes, each time with the version
//     that it read.
//   - Records end with their control plane, by owner reference, or when their
//     object is gone for certain.
package metadata
