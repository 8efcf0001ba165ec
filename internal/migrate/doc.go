// Package migrate owns the command "coder-k8s migrate": the way from a release of
// Coder's Helm charts to the three kinds.
//
// The work is done beneath it: release reads what Helm keeps of a release in the
// cluster, values reads files of values with the line of each, parity is the table
// of docs/reference/helm-parity.md, manifests makes objects of values, and takeover
// hands the running objects over to the operator.
//
// Invariants:
//
//   - What cannot be read is named with its file and line, and the rest goes on.
//   - No secret is written: neither into a manifest nor into the report.
//   - Without --take-over nothing in the cluster is changed.
package migrate
