// Package manifests tests the objects that kubectl apply -k creates for each directory of
// config: the permissions, which pods a Service selects and which traffic a policy
// allows, that kube-apiserver accepts all objects, and that Pod Security admits the pods
// that the operator creates. hack/install-test.sh tests the running pods on a real
// cluster.
//
// Invariants:
//   - Each way of installation is rendered by the kubectl of the demo.
//   - The permissions of each ServiceAccount are in testdata/rights, so that an additional permission is visible in a review.
//   - Every file of config is part of some installation.
package manifests
