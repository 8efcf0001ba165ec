package kubetest

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout is the timeout of each step of a start.
const startTimeout = 2 * time.Minute

// Environment returns an etcd and a kube-apiserver with the CRDs in files or directories. The
// caller can configure it further, and must start and stop it. Start does that for a test that
// needs no more. The timeouts are longer than the library's, because a busy machine needs more
// time.
func Environment(definitions ...string) *envtest.Environment {
	return &envtest.Environment{
		CRDDirectoryPaths: definitions, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout,
		CRDInstallOptions: envtest.CRDInstallOptions{MaxTime: startTimeout},
	}
}
