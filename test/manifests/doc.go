// Package manifests tests the objects of each installation that hack/manifests.sh renders from the Helm chart: the
// permissions, which pods a Service selects and which traffic a policy allows, that kube-apiserver accepts all objects, and
// that Pod Security admits the pods that the operator creates. test/manifests/cluster-test.sh tests the running pods on a real
// cluster.
//
// Invariants:
//   - Every file of charts/coder-k8s/installations is tested.
//   - The permissions of each ServiceAccount are in testdata/rights, so that an additional permission is visible in a review.
//   - Nothing in the manifests runs or removes anything because it is applied.
package manifests
