// Package release tests the inputs of a release without building one: the
// version is defined once, builds are reproducible, and the workflows refer to
// existing files. hack/release tests its own program.
package release
