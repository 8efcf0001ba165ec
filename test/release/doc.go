// Package release tests the inputs of a release without building one: the version is defined once,
// builds are reproducible, and the workflows refer to existing files. hack/release tests its own
// program.
//
// It also checks the custom resource definitions for upgrades: an object that the previous release
// accepted is valid in this version, none of its fields gets lost, and the previous release can read
// it again. The file previous contains the commit and the tag of that release; it must be updated
// with each release. test/e2e upgrades from there to here and rolls back on a cluster.
//
// Invariant: a change by which an object can be rejected or lose data is detected, and the
// comparison is skipped only in a clone without that commit.
package release
