// Package flux runs Flux's kustomize-controller, as it is released, against a
// cluster, and looks whether our objects are for it what Kubernetes objects should
// be: applied, seen to be ready, left alone at rest, corrected when somebody changes
// them, and deleted when they leave the source.
//
// It is a module of its own, so that the operator's go.mod does not grow by a GitOps
// tool. The controller is a plain process of this machine, and so is what stands in
// for Flux's source-controller: an HTTP server with one archive per source, and a
// GitRepository whose status the test writes itself. hack/peers/flux.sh builds the
// controller and runs the tests.
package flux
