package kubetest

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
)

// Start runs etcd and kube-apiserver with the definitions of files or directories
// until the test ends. The test is skipped where nobody says where they are: make test
// does, by KUBEBUILDER_ASSETS.
func Start(t *testing.T, definitions ...string) *rest.Config {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set; make test sets it")
	}
	server := Environment(definitions...)
	config, err := server.Start()
	// Where kube-apiserver does not start, etcd may run.
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
