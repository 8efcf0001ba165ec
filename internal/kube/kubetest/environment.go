package kubetest

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Environment is an etcd and a kube-apiserver with the definitions of files or
// directories, which whoever asks may configure further, starts and stops. Start does
// that for a test that needs nothing else. A busy machine takes longer for all of this
// than the library waits by itself.
func Environment(definitions ...string) *envtest.Environment {
	return &envtest.Environment{
		CRDDirectoryPaths: definitions, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: 2 * time.Minute,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: time.Minute},
	}
}
