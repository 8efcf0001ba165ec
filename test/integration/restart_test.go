package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// apiServer is a second kube-apiserver over the etcd of this package, which a test
// may kill: the other tests keep theirs.
type apiServer struct {
	address string
	args    []string
	cmd     *exec.Cmd
	out     *syncBuffer
}

// newAPIServer creates an apiServer that accepts the tokens and certificates of the
// first one.
func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	main := environment.server.ControlPlane.GetAPIServer()
	port := freePort(t)
	cert := func(name string) string { return filepath.Join(main.CertDir, name) }
	return &apiServer{address: "https://127.0.0.1:" + port, out: &syncBuffer{}, args: []string{
		"--bind-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + t.TempDir(),
		"--etcd-servers=" + environment.server.ControlPlane.Etcd.URL.String(),
		"--tls-cert-file=" + cert("apiserver.crt"), "--tls-private-key-file=" + cert("apiserver.key"),
		"--service-account-issuer=" + main.SecureServing.URL("https", "/").String(),
		"--service-account-key-file=" + cert("sa-signer.crt"), "--service-account-signing-key-file=" + cert("sa-signer.key"),
		"--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount", "--authorization-mode=RBAC",
		"--endpoint-reconciler-type=none",
	}}
}

// start starts it and waits until it responds.
func (s *apiServer) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-apiserver"), s.args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("starting the second kube-apiserver: %v", err)
	}
	config := rest.CopyConfig(environment.config)
	config.Host = s.address
	polltest.Eventually(t, "the second kube-apiserver is ready", func(ctx context.Context) error {
		transport, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		return httpOKWith(ctx, transport, s.address+"/readyz")
	})
}

// kill kills it with SIGKILL.
func (s *apiServer) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// TestAPIServerRestarts: kube-apiserver is killed in the middle of the operator's
// work and started again. The operator continues to run and completes its work;
// nothing is created twice.
func TestAPIServerRestarts(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	server.start(t)
	t.Cleanup(func() {
		server.kill()
		if t.Failed() {
			out := server.out.String()
			t.Logf("the end of the second kube-apiserver's log:\n%s", out[max(0, len(out)-3000):])
		}
	})
	names, proxy := startCoders(t)
	ns := namespace(t)
	config := operatorConfig(t)
	config.Host = server.address
	p := startProcessAs(t, config, proxy, "--leader-elect=false", "--watch-namespaces="+ns)
	p.serverRestarts = true
	p.ready(t)
	pods := startStandIn(t, ns)
	// So the operator cannot be finished when the test kills kube-apiserver.
	pods.hold("coder-9", true)
	m := newMany(t, names, ns)
	create(t, m.objects...)
	lost := &corev1.Service{}
	polltest.Eventually(t, "the operator is in the middle", func(ctx context.Context) error {
		if n := m.begun(); n < 3 {
			return fmt.Errorf("it has begun with %d", n)
		}
		return environment.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "coder"}, lost)
	})
	server.kill()
	if m.begun() == len(m.coders) {
		t.Error("the operator had done everything: the test shows nothing")
	}
	// The operator must see changes during the outage afterwards.
	late := controlPlane(ns, "late", withDatabase)
	licensedCoder(t, names, ns, "late")
	create(t, late)
	pods.hold("coder-9", false)
	if err := environment.client.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	down := time.Now()
	polltest.Eventually(t, "the operator notices", func(context.Context) error {
		if !strings.Contains(p.logs.String(), "connection refused") {
			return fmt.Errorf("its log says nothing of it")
		}
		return nil
	})
	server.start(t)
	t.Logf("kube-apiserver was away for %.1f s", time.Since(down).Seconds())
	isReady(t, append(m.objects, late)...)
	exists(t, &corev1.Service{}, ns, "coder", false)
	t.Logf("all Ready %.1f s after it went away", time.Since(down).Seconds())
	p.ready(t)
	m.once(t)
	select {
	case <-p.ended:
		t.Error("the process has ended")
	default:
	}
	if strings.Contains(p.logs.String(), "panic") {
		t.Error("the log tells of a panic")
	}
}
