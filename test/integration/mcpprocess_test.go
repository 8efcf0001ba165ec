package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// relay is a TCP proxy to kube-apiserver that can be interrupted.
type relay struct {
	address, target string
	// delay is how late what kube-apiserver sends arrives.
	delay time.Duration

	mu sync.Mutex
	// listener is nil while the relay is interrupted.
	listener net.Listener
	open     []net.Conn
}

func newRelay(t *testing.T, delay time.Duration) *relay {
	t.Helper()
	target, err := url.Parse(environment.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{delay: delay, address: "127.0.0.1:" + kubetest.FreePort(t), target: target.Host}
	r.connect(t)
	t.Cleanup(r.cut)
	return r
}

// connect accepts connections, at the same address as before.
func (r *relay) connect(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	listener, err := net.Listen("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	r.listener = listener
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go r.pass(listener, near)
		}
	}()
}

// pass forwards one connection, unless the relay was interrupted since it was
// accepted.
func (r *relay) pass(by net.Listener, near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer far.Close()
	r.mu.Lock()
	open := r.listener == by
	if open {
		r.open = append(r.open, near, far)
	}
	r.mu.Unlock()
	if !open {
		return
	}
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	copyLater(near, far, r.delay)
}

// copyLater copies what it reads, each part after a delay. Parts do not wait for each other.
func copyLater(to io.Writer, from io.Reader, delay time.Duration) {
	type part struct {
		data []byte
		due  time.Time
	}
	parts := make(chan part, 1000)
	go func() {
		defer close(parts)
		for buffer := make([]byte, 32<<10); ; {
			n, err := from.Read(buffer)
			parts <- part{data: slices.Clone(buffer[:n]), due: time.Now().Add(delay)}
			if err != nil {
				return
			}
		}
	}()
	var failed error
	for p := range parts {
		pause(context.Background(), time.Until(p.due))
		if failed == nil {
			_, failed = to.Write(p.data)
		}
	}
}

// cut closes all connections and accepts no others.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listener != nil {
		_ = r.listener.Close()
	}
	for _, connection := range r.open {
		_ = connection.Close()
	}
	r.listener, r.open = nil, nil
}

// TestMCPReadiness checks that a server that cannot reach kube-apiserver is not ready,
// but live, and that its responses contain no address.
func TestMCPReadiness(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	token := robot(t, ns, "robot", userRoles("view")...)
	way, config := newRelay(t, 0), mcpConfig(t)
	config.Host = "https://" + way.address
	p := startProcessAs(t, config, "", "--app=mcp-http", "--mcp-enabled-tools=list_control_planes,get_events")
	p.ready(t)
	probes := []string{"http://127.0.0.1:" + p.port + "/readyz", "http://127.0.0.1:" + p.mcpPort + "/readyz"}
	session := entered(t, mcpURL(p), token, modernProtocol, nil)
	if diff := cmp.Diff([]string{"get_events", "list_control_planes"}, toolNames(t, session)); diff != "" {
		t.Errorf("the tools (-want +got):\n%s", diff)
	}
	succeeds(t, session, "get_events", map[string]any{"namespace": ns})
	way.cut()
	for _, probe := range probes {
		polltest.Eventually(t, probe+" says that the server is not ready", func(ctx context.Context) error {
			if err := httpOK(ctx, probe); err == nil || !strings.HasSuffix(err.Error(), "503 Service Unavailable") && !strings.HasSuffix(err.Error(), "500 Internal Server Error") {
				return fmt.Errorf("it is answered with %w", err)
			}
			return nil
		})
	}
	answer, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_events", Arguments: map[string]any{"namespace": ns}})
	if err == nil && !answer.IsError {
		t.Errorf("the answer is %s", textOf(answer))
	}
	if told := fmt.Sprint(err) + textOf(answer); strings.Contains(told, way.address) {
		t.Errorf("the answer tells an address: %s", told)
	}
	for _, health := range []string{"http://127.0.0.1:" + p.port + "/healthz", "http://127.0.0.1:" + p.mcpPort + "/healthz"} {
		if err := httpOK(t.Context(), health); err != nil {
			t.Errorf("without kube-apiserver the process is to be killed: %v", err)
		}
	}
	way.connect(t)
	for _, probe := range probes {
		polltest.Eventually(t, probe+" says that the server is ready", func(ctx context.Context) error { return httpOK(ctx, probe) })
	}
	succeeds(t, entered(t, mcpURL(p), token, modernProtocol, nil), "get_events", map[string]any{"namespace": ns})
}

// TestMCPLocal checks that on a user's own machine the server needs no token and uses
// their kubeconfig.
func TestMCPLocal(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	me := serviceAccountConfig(t, ns, "me")
	for _, role := range userRoles("view") {
		grant(t, ns, role, "me")
	}
	known(t, ns, "me")
	p := startProcessAs(t, me, "", "--app=mcp-http", "--mcp-auth=none",
		"--mcp-read-only", "--mcp-toolsets=controlplane,observe", "--mcp-disabled-tools=get_pod_logs,diagnose_control_plane")
	p.ready(t)
	session := mustConnectMCP(t, mcpURL(p), "", modernProtocol, nil)
	want := []string{
		"check_health", "get_control_plane_deployment_status", "get_control_plane_status", "get_events", "get_service_status",
		"list_control_plane_pods", "list_control_planes", "list_provisioners", "list_workspace_proxies",
	}
	if diff := cmp.Diff(want, toolNames(t, session)); diff != "" {
		t.Errorf("the tools (-want +got):\n%s", diff)
	}
	succeeds(t, session, "list_control_planes", map[string]any{"namespace": ns})
	for _, tool := range []string{"get_pod_logs", "change_control_plane", "list_workspaces"} {
		if answer, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"namespace": ns, "name": "x"}}); err == nil {
			t.Errorf("%s, which is switched off, is answered: %s", tool, textOf(answer))
		}
	}
}

// TestMCPRefusesToStart checks that the server rejects insecure and contradictory
// flags.
func TestMCPRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	for name, test := range map[string]struct {
		args, environment []string
		want              string
	}{
		"without authentication for everybody": {[]string{"--mcp-auth=none", "--mcp-bind-address=0.0.0.0:0"}, nil, "needs a loopback address"},
		"without authentication in a pod":      {[]string{"--mcp-auth=none"}, []string{"KUBERNETES_SERVICE_HOST=10.0.0.1", "KUBERNETES_SERVICE_PORT=443"}, "refused in a pod"},
		"with a tool that there is not":        {[]string{"--mcp-enabled-tools=get_secrets"}, nil, `there is no tool "get_secrets"`},
		"with a toolset that there is not":     {[]string{"--mcp-toolsets=all"}, nil, `there is no toolset "all"`},
		"with a tool that is read-only's":      {[]string{"--mcp-read-only", "--mcp-enabled-tools=delete_workspace"}, nil, "read-only"},
		"with an issuer and without a URL":     {[]string{"--mcp-auth=oidc", "--mcp-oidc-issuer-url=https://login.example.com"}, nil, "--mcp-public-url"},
		"at an address that is taken": {
			[]string{"--mcp-bind-address=" + taken.Addr().String()}, nil,
			"listening on --mcp-bind-address " + taken.Addr().String() + ": listen tcp " + taken.Addr().String() + ": bind: address already in use",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t, mcpConfig(t), "", append([]string{"--app=mcp-http"}, test.args...)...)
			p.environment = append(p.environment, test.environment...)
			p.start(t)
			select {
			case <-p.ended:
			case <-polltest.Context(t).Done():
				p.kill()
				t.Fatalf("the program still runs:\n%s", p.logs)
			}
			if code := p.cmd.ProcessState.ExitCode(); code == 0 || !strings.Contains(p.logs.String(), test.want) {
				t.Errorf("it ended with %d and without %q:\n%s", code, test.want, p.logs)
			}
		})
	}
}

// TestMCPMemory limits the memory that clients need. Each of the limits is about half a
// MiB per client. The race detector takes several times the memory and the time, so with
// it there are fewer calls.
func TestMCPMemory(t *testing.T) {
	t.Parallel()
	const clients = 200
	calls, most := 20, int64(128)
	if kubetest.RaceEnabled {
		calls, most = 2, 192
	}
	ns := namespace(t)
	create(t, controlPlane(ns, "coder", nil))
	token := robot(t, ns, "robot", userRoles("view")...)
	metrics := kubetest.FreePort(t)
	// All clients use the same user.
	p := newProcess(t, mcpConfig(t), "", "--app=mcp-http", "--mcp-rate-limit=0", "--mcp-max-in-flight=0", "--metrics-bind-address=127.0.0.1:"+metrics)
	p.environment = append(p.environment, "GOGC=50") // As in the Deployment.
	p.run(t)
	p.ready(t)
	succeeds(t, entered(t, mcpURL(p), token, modernProtocol, nil), "list_control_planes", map[string]any{"namespace": ns})
	before := metricsOf(t, metrics)
	idle, idleAnonymous := mebibytes(t, p)
	connections := &http.Transport{MaxIdleConnsPerHost: clients}
	begin := time.Now()
	var all sync.WaitGroup
	for i := range clients {
		endpoint := mcpEndpoint(mcpURL(p), token, []string{legacyProtocol, modernProtocol}[i%2], nil)
		endpoint.Transport = connections
		session := endpoint.Dial(t)
		all.Go(func() {
			for range calls {
				answer, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "list_control_planes", Arguments: map[string]any{"namespace": ns}})
				if err != nil || answer.IsError {
					t.Errorf("a call ended with %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	loaded, loadedAnonymous := mebibytes(t, p)
	goroutines := func(content string) float64 { return metric(t, content, "go_goroutines") }
	polltest.Eventually(t, "the goroutines of the clients end", func(context.Context) error {
		// A connection may still read the end of its last response.
		connections.CloseIdleConnections()
		if now := goroutines(metricsOf(t, metrics)); now > goroutines(before)+20 {
			return fmt.Errorf("there are %v, and were %v", now, goroutines(before))
		}
		return nil
	})
	t.Logf("race detector %t: %d MiB idle (%d without the program's file), %d (%d) with %d clients of %d calls each, in %.1f s; %v goroutines before, %v after",
		kubetest.RaceEnabled, idle, idleAnonymous, loaded, loadedAnonymous, clients, calls, took.Seconds(), goroutines(before), goroutines(metricsOf(t, metrics)))
	if loadedAnonymous > most {
		t.Errorf("%d MiB are more than %d", loadedAnonymous, most)
	}
}

// mebibytes returns the memory of a process: the resident memory, and the part of it
// that is not mapped from the executable file.
func mebibytes(t *testing.T, p *process) (resident, anonymous int64) {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skipf("the memory of a process cannot be read here: %v", err)
	}
	for line := range strings.SplitSeq(string(content), "\n") {
		// Values without a line keep their zero value.
		_, _ = fmt.Sscanf(line, "VmRSS: %d kB", &resident)
		_, _ = fmt.Sscanf(line, "RssAnon: %d kB", &anonymous)
	}
	if resident == 0 || anonymous == 0 {
		t.Fatalf("the status tells nothing of the memory:\n%s", content)
	}
	return resident >> 10, anonymous >> 10
}
