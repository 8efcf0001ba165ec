// Package manifests converts values of Coder's Helm charts to a CoderControlPlane, a
// CoderProvisioner or a CoderWorkspaceProxy.
//
// The tables in docs/reference/helm-parity.md map values to fields; they are the only source of the
// mapping. A value with one field is copied. A value that needs more has a function in the list of
// its chart. Therefore a new value of a chart needs a row in the table, and a function only if it
// cannot be copied. Paths of values are written as Helm does, for example coder.env[2].name.
//
// Invariants:
//
//   - Each value is in the report once. The report contains names and positions, but no value.
//   - A value that does not fit its field is reported, and the other values are converted.
//   - A value that looks like a secret is not copied: it is replaced by a reference to a key of a
//     Secret, or omitted.
package manifests
