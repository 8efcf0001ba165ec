// Package migrate implements the command "coder-k8s migrate", which converts a release of Coder's
// Helm charts to the custom resources of this project.
//
// It reads the Secret in which Helm stores a release: one for each revision, with one key that
// contains compressed JSON in base64. Convert converts the values (convert*.go). A takeover transfers
// the running objects of the release to the operator, without recreating them.
//
// The tables in docs/reference/helm-parity.md map values to fields; they are the only source of the
// mapping. A value with one field is copied. A value that needs more has a function in the list of
// its chart. Therefore a new value of a chart needs a row in the table, and a function only if it
// cannot be copied. Paths of values are written as Helm does, for example coder.env[2].name.
//
// An object is handed over by an annotation that names its new owner. The same write transfers
// Helm's managed fields to the operator, because a field with two owners stays when one of them
// removes it. The controllers then adopt the object (see Adopting in internal/kube/apply): the
// Deployment keeps its selector, and its pods keep running if their template is equal.
//
// Invariants:
//
//   - A value that cannot be read is reported with its file and line, and the other values are
//     converted.
//   - A value that does not fit its field is reported, and the other values are converted. Each
//     value is in the report once. The report contains names and positions, but no value.
//   - No secret is written: not to a manifest, the report or an error. A value that looks like a
//     secret is replaced by a reference to a key of a Secret, or omitted.
//   - Without --take-over nothing in the cluster is changed.
//   - Before any change, the plan lists whether pods will be replaced, and because of which fields.
//   - Only objects with the annotation of the release are handed over.
//   - Handing over alone has no effect, so an interrupted run can be repeated.
package migrate
