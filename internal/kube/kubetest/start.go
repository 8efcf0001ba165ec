package kubetest

import (
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout is the timeout of each step of a start.
const startTimeout = 10 * time.Minute

// Detectors returns the environment variables that make a process check itself: whether it changes
// objects in the caches of client-go, and whether the cacher of the aggregated API equals its log.
// The libraries read them when the process starts.
func Detectors() []string {
	return []string{"KUBE_CACHE_MUTATION_DETECTOR=true", "KUBE_WATCHCACHE_CONSISTENCY_CHECKER=true"}
}

// Environment returns an etcd and a kube-apiserver with the CRDs in files or directories. The
// caller can configure it further, and must start and stop it. Start does that for a test that
// needs no more. The timeouts are longer than the library's, because a busy machine needs more
// time. The servers inherit the environment of the test, which no longer contains the detectors that
// make test switches on in the test itself: they take a tenth of the processor time of kube-apiserver.
func Environment(definitions ...string) *envtest.Environment {
	for _, detector := range Detectors() {
		name, _, _ := strings.Cut(detector, "=")
		_ = os.Unsetenv(name)
	}
	return &envtest.Environment{
		CRDDirectoryPaths: definitions, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: startTimeout},
	}
}

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
