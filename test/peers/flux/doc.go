// Package flux runs a released version of Flux's kustomize-controller against a
// cluster, and checks that it handles our objects like other Kubernetes objects:
// they are applied and become ready, are not written when nothing changes, are
// corrected when someone changes them, and are deleted when they are removed from
// the source.
//
// It is a module of its own, so that the operator's go.mod does not grow by a GitOps
// tool. The controller is a process on this machine, and so is the replacement of
// Flux's source-controller: an HTTP server with one archive per source, and a
// GitRepository whose status the test writes itself. test/peers/flux.sh builds the
// controller and runs the tests.
package flux
