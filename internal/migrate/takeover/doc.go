// Package takeover owns how the running objects of a Helm release become the
// operator's, without being made anew.
//
// An object is handed over by an annotation that names its new owner, and with it
// what Helm owns of its fields, because a field that two own stays when one of them
// drops it. The controllers then take the object as theirs (see Adopting in
// internal/kube/apply): the Deployment keeps its selector, and its pods stay where
// their template is equal.
//
// Invariants:
//
//   - Before anything is changed it is known whether pods will be replaced, and for
//     which fields.
//   - Only objects that carry the mark of the release are handed over.
//   - To be handed over changes nothing by itself, so a run that ends in the middle
//     can be run again.
//   - No value of a variable is told.
package takeover
