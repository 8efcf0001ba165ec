// Package e2e runs the main job on a real cluster with a real Coder, as a user
// does it: with kubectl, the manifests and the samples.
//
// hack/test-e2e.sh starts a cluster for each test of this package (instances of their
// own, so that a running demo is not disturbed), loads the image and runs the tests at
// the same time. Most of them is waiting, so that what is a story of its own is a test
// of its own; a step of one of them is called by main_test.go alone. Without KUBECONFIG,
// E2E_POSTGRES_URL and E2E_CODER_IMAGE the tests refuse to run.
//
// Invariants: the tests wait for what they want to see with a deadline and never
// sleep for a fixed time; when one fails, the state of the cluster and the logs
// are printed.
package e2e
