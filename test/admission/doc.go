// Package admission tests what a real kube-apiserver makes of the three custom
// resource definitions: which objects it refuses and what it says then, which
// defaults it fills in, and that the definitions are usable as they are (established,
// small enough for client-side apply, with scale, columns and short names).
//
// Each rule in the definitions has a row in a table: an object that breaks it, with
// what the answer must say, and the nearest object that does not. A rule without a
// row fails the package.
//
// The binaries come from KUBEBUILDER_ASSETS, as in test/integration; without it
// the tests are skipped.
package admission
