package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// startControllerManager runs some of the real controllers of Kubernetes until the test
// ends. They watch all namespaces, so no other test may run in parallel.
func startControllerManager(t *testing.T, controllers string, args ...string) {
	t.Helper()
	kubeconfig := kubeconfigFile(t, environment.config)
	out := &syncBuffer{}
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"), append([]string{
		"--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
		"--controllers=" + controllers, "--leader-elect=false",
		"--bind-address=127.0.0.1", "--secure-port=" + freePort(t), "--cert-dir=" + t.TempDir(),
		"--kube-api-qps=300", "--kube-api-burst=600",
	}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting kube-controller-manager: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if logs := out.String(); t.Failed() {
			t.Logf("the end of kube-controller-manager's log:\n%s", logs[max(0, len(logs)-5000):])
		}
	})
}
