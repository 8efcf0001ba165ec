package kubetest

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
)

// Start runs etcd and kube-apiserver with the CRDs in files or directories until the test ends. It
// skips the test if KUBEBUILDER_ASSETS, which make test sets, does not contain their location.
func Start(t *testing.T, definitions ...string) *rest.Config {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set; make test sets it")
	}
	server := Environment(definitions...)
	config, err := server.Start()
	// If kube-apiserver does not start, etcd may still run.
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("stopping etcd and kube-apiserver: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("starting etcd and kube-apiserver: %v", err)
	}
	return config
}
