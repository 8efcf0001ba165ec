// Package docs tests the documentation and the examples.
//
// The pages: links and anchors have targets, each page is in the contents, and the flags, commands
// and make targets on the pages exist. The supported versions (internal/upgrade/supported.yaml) are the same
// everywhere. helm-parity.md has one row for each value of Coder's Helm charts, which are listed in
// testdata, and each field in it exists. make test-nightly runs the tutorials with TutorialScript:
// every block that is marked as sh, in order, in one shell. The site itself is built by make docs.
//
// The manifests in docs, config/samples and examples are applied as a dry run to a real
// kube-apiserver with our definitions, so no field in them is unknown. The definitions of other
// projects come from their Go modules; test/peers/schemas.sh copies them to PEER_SCHEMAS. Without
// them, manifests of other projects are only parsed, and their kinds are looked up in a list. The
// binaries come from KUBEBUILDER_ASSETS; without it these tests are skipped.
package docs
