// Package examples tests the directory examples: a real kube-apiserver with our
// definitions accepts each manifest as a dry run, and no field in it is unknown.
//
// The definitions of other projects are taken from the modules in which these publish
// them; hack/peers/schemas.sh brings them to PEER_SCHEMAS. Without them the manifests
// of the other projects are read, and their kinds are looked up in a list, no more.
//
// The binaries come from KUBEBUILDER_ASSETS, as in test/admission; without it the
// tests are skipped.
package examples
