// Package manifests tests what kubectl apply -k makes of each directory of config:
// who may do what, which pods a Service reaches and a policy lets through, and that a
// kube-apiserver takes all of it, and that Pod Security admits the pods that the operator
// makes. What the pods then do is tried on a real cluster by
// hack/install-test.sh.
//
// Invariants:
//   - Each way of installation is rendered by the kubectl of the demo.
//   - The rights of each ServiceAccount stand in testdata/rights, to be read and
//     compared: a right more is a change that somebody sees.
//   - Every file of config is part of some installation.
package manifests
