package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
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
	port := kubetest.FreePort(t)
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
// nothing is created twice. It is not parallel, for the same reason as TestSomeNamespaces.
func TestAPIServerRestarts(t *testing.T) {
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
}

// TestKilledWhileCreating: the program is killed when Coder has created a workspace
// with running: false, possibly before the program received the response. The next
// process stops the workspace once, and it keeps its label.
func TestKilledWhileCreating(t *testing.T) {
	p, ns, coder, _ := coderServed(t, coderdtest.WithManualBuilds())
	polltest.Eventually(t, "the API knows the template", func(ctx context.Context) error {
		return environment.client.Create(ctx, quiet(ns, "coder.admin.dry"), client.DryRunAll)
	})
	answered := func() {}
	for i, lost := range []bool{true, false} {
		name := fmt.Sprintf("quiet-%d", i)
		if lost {
			answered = coder.Fail(coderdtest.Fault{Method: "POST", PathPrefix: "/api/v2/users/", Processed: true, DropConnection: true})
		}
		asked := make(chan error, 1)
		go func() { asked <- environment.client.Create(context.Background(), quiet(ns, "coder.admin."+name)) }()
		polltest.Eventually(t, "Coder has the workspace", func(context.Context) error {
			if coder.ActiveBuilds() == 0 {
				return errors.New("it has not")
			}
			return nil
		})
		p.kill()
		answered()
		t.Logf("%s: the client was told %v", name, <-asked)
		coder.FinishBuilds()
		p.start(t)
		p.ready(t)
		ws := &aggregationv1alpha1.CoderWorkspace{}
		polltest.Eventually(t, "workspace "+name+" is stopped", func(ctx context.Context) error {
			coder.FinishBuilds()
			if err := environment.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: "coder.admin." + name}, ws); err != nil {
				return err
			}
			if ws.Status.Phase != "Stopped" || ws.Status.ObservedGeneration != ws.Generation || ptr.Deref(ws.Spec.Running, true) {
				return fmt.Errorf("it is %s, generation %d of %d", ws.Status.Phase, ws.Status.ObservedGeneration, ws.Generation)
			}
			return nil
		})
		if ws.Labels["kept"] != "yes" {
			t.Errorf("%s has the labels %v", name, ws.Labels)
		}
		builds := coder.Transitions(uuid.MustParse(ws.Status.ID))
		if diff := cmp.Diff([]string{"start", "stop"}, builds); diff != "" {
			t.Errorf("%s was built otherwise than once each (-want +got):\n%s", name, diff)
		}
	}
	list := &aggregationv1alpha1.CoderWorkspaceList{}
	if err := environment.client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, ws := range list.Items {
		all = append(all, ws.Name)
	}
	slices.Sort(all)
	if diff := cmp.Diff([]string{"coder.admin.quiet-0", "coder.admin.quiet-1"}, all); diff != "" {
		t.Error(diff)
	}
}

// quiet returns a workspace with running: false.
func quiet(ns, name string) *aggregationv1alpha1.CoderWorkspace {
	ws := workspaceOf(ns, name, "hello")
	ws.Spec.Running = ptr.To(false)
	ws.Labels = map[string]string{"kept": "yes"}
	return ws
}
