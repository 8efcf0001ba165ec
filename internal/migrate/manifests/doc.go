// Package manifests owns how values of Coder's Helm charts become a
// CoderControlPlane, a CoderProvisioner or a CoderWorkspaceProxy.
//
// Which field stands for which value is read from the table of package parity. A
// value with one field is copied; what needs more than a copy has a function in
// the list of its chart. So a value of a newer chart needs a row on the page and,
// only where it is no copy, a function here.
//
// Invariants:
//
//   - Each value that was given is told of in the report, once.
//   - A value that does not fit its field is named, and the others go on.
//   - What looks like a secret is not copied: a reference to a key of a Secret
//     stands in its place, or nothing.
package manifests
