// Package migrate implements the command "coder-k8s migrate", which converts a release of Coder's
// Helm charts to the custom resources of this project.
//
// The subpackages do the work: release reads the Secret in which Helm stores a release, values
// reads values files with the line of each value, parity parses the tables in
// docs/reference/helm-parity.md, manifests converts values to manifests, and takeover hands the
// running objects over to the operator.
//
// Invariants:
//
//   - A value that cannot be read is reported with its file and line, and the other values are
//     converted.
//   - No secret is written, neither to a manifest nor to the report.
//   - Without --take-over nothing in the cluster is changed.
package migrate
