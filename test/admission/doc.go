// Package admission tests the three custom resource definitions with a real
// kube-apiserver: which objects it rejects and with which errors, which defaults it
// sets, and that the definitions are usable (established, small enough for
// client-side apply, with scale, columns and short names).
//
// Each rule in the definitions has a row in a table: an object that violates it, with
// the expected error, and a similar object that does not. A rule without a row fails
// the package.
//
// The binaries come from KUBEBUILDER_ASSETS, as in test/integration; without it
// the tests are skipped.
package admission
