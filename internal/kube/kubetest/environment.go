package kubetest

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout is what each step of a start may take.
const startTimeout = 2 * time.Minute

// Environment is an etcd and a kube-apiserver with the definitions of files or
// directories, which whoever asks may configure further, starts and stops. Start does
// that for a test that needs nothing else. A busy machine takes longer for all of this
// than the library waits by itself.
func Environment(definitions ...string) *envtest.Environment {
	return &envtest.Environment{
		CRDDirectoryPaths: definitions, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: startTimeout},
	}
}
