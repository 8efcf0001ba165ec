// Package e2e runs the main job on a real cluster with a real Coder, as a user
// does it: with kubectl, the manifests and the samples.
//
// hack/test-e2e.sh starts the cluster (an instance of its own, so that a running
// demo is not disturbed), loads the image and calls this package with the build
// tag e2e. Without KUBECONFIG and E2E_POSTGRES_URL the tests refuse to run.
//
// Invariants: the tests wait for what they want to see with a deadline and never
// sleep for a fixed time; when one fails, the state of the cluster and the logs
// are printed.
package e2e
