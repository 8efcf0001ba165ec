// Package integration tests the components against a real kube-apiserver and etcd,
// started once for the package: the CRD's validation, server-side apply, RBAC, token
// review, the aggregation layer. There is no kubelet, and a controller manager runs only
// if a test starts it (environment_test.go): a test that needs ready pods writes the status
// itself.
//
// The binaries come from KUBEBUILDER_ASSETS (make test sets it to those that the
// demo uses). Without it the tests are skipped, so that go test ./... works on a
// fresh clone.
//
// kube-apiserver records the operator's requests in an audit log (audit_test.go), so
// that a forbidden request fails the test that caused it.
//
// TestHistory (history_test.go) is about the replicas of the aggregated API under faults
// (faults_test.go). The calls of all clients are recorded, and must be linearizable for
// each object (linear_test.go); one log must explain what watches and lists showed
// (observations_test.go). CODER_K8S_HISTORY_SEED chooses the order of the faults, and
// CODER_K8S_HISTORY_DURATION, such as "10m", repeats them. The tests of away_test.go log
// how soon the API is back; CODER_K8S_TEST_AWAY=1m and CODER_K8S_TEST_OBJECTS=10000 set
// the sizes in the documentation.
//
// Invariants: each test has its own namespace; nothing sleeps. Parallel tests restrict
// their operator to their namespaces, because it would otherwise also act in those of
// other tests.
package integration
