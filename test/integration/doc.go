// Package integration tests the components against a real kube-apiserver and
// etcd, started once for the package: the CRD's validation, server-side apply,
// RBAC, token review, the aggregation layer. There is no kubelet and no
// controller manager: a test that needs ready pods says so in the status itself.
//
// The binaries come from KUBEBUILDER_ASSETS (make test sets it to those that the
// demo uses). Without it the tests are skipped, so that go test ./... works on a
// fresh clone.
//
// Invariants: each test has a namespace of its own; nothing sleeps.
package integration
