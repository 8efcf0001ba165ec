// Package e2e tests the operator on a real cluster with a real Coder, as a user operates
// it: with kubectl, the manifests and the samples.
//
// test/e2e/run.sh starts a cluster for each test of this package (instances of their
// own, so that a running demo is not disturbed), loads the image and runs the tests at
// the same time. The tests mostly wait, so each independent scenario is a separate test;
// only main_test.go calls the steps of a scenario. Without KUBECONFIG, E2E_POSTGRES_URL
// and E2E_CODER_IMAGE the tests refuse to run.
//
// Invariants: the tests poll with a deadline and never sleep for a fixed time; if a test
// fails, the state of the cluster and the logs are printed.
package e2e
