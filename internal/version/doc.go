// Package version contains the version information of a build of coder-k8s. The linker sets
// it; it never changes at run time.
package version
