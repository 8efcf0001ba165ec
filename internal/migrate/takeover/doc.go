// Package takeover transfers the running objects of a Helm release to the operator, without
// recreating them.
//
// An object is handed over by an annotation that names its new owner. The same write transfers
// Helm's managed fields to the operator, because a field with two owners stays when one of them
// removes it. The controllers then adopt the object (see Adopting in internal/kube/apply): the
// Deployment keeps its selector, and its pods keep running if their template is equal.
//
// Invariants:
//
//   - Before any change, the plan lists whether pods will be replaced, and because of which fields.
//   - Only objects with the annotation of the release are handed over.
//   - Handing over alone has no effect, so an interrupted run can be repeated.
//   - No value of a variable is printed.
package takeover
