// Package examples tests the directory examples: a real kube-apiserver with our
// definitions accepts each manifest as a dry run, and no field in it is unknown.
//
// The definitions of other projects come from their Go modules; hack/peers/schemas.sh
// copies them to PEER_SCHEMAS. Without them, manifests of other projects are only
// parsed, and their kinds are looked up in a list.
//
// The binaries come from KUBEBUILDER_ASSETS, as in test/admission; without it the
// tests are skipped.
package examples
