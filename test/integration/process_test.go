package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// binary builds the real program once, with the race detector if the tests use it.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(environment.dir, "coder-k8s")
	args := []string{"build", "-o", path}
	if kubetest.RaceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "../../cmd/coder-k8s")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the program: %w\n%s", err, out)
	}
	return path, nil
})

// process is a running program with the operator's ServiceAccount.
type process struct {
	command, environment   []string
	cmd                    *exec.Cmd
	logs                   *syncBuffer
	apiPort, mcpPort, port string
	// name is the name that it uses for itself.
	name string
	// credential identifies the process in the audit log, from the offset auditFrom.
	credential string
	auditFrom  int64
	// serverRestarts reports whether its kube-apiserver restarts, which refuses all
	// requests for a moment because it has not read the roles yet.
	serverRestarts bool
	ended          chan struct{}
}

// startProcess starts the program with the operator's own permissions. Its calls to
// Coder, which has no name here, go through proxy to fake servers.
func startProcess(t *testing.T, proxy string, args ...string) *process {
	t.Helper()
	return startProcessAs(t, operatorConfig(t), proxy, args...)
}

// startProcessAs starts it with the permissions of a client configuration.
func startProcessAs(t *testing.T, config *rest.Config, proxy string, args ...string) *process {
	t.Helper()
	p := newProcess(t, config, proxy, args...)
	p.run(t)
	return p
}

// newProcess returns a process that has not been started yet.
func newProcess(t *testing.T, config *rest.Config, proxy string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{
		logs: &syncBuffer{}, apiPort: kubetest.FreePort(t), mcpPort: kubetest.FreePort(t), port: kubetest.FreePort(t),
		credential: credentialOf(t, config.BearerToken), auditFrom: auditSize(t),
	}
	p.name = "pod-" + p.apiPort
	p.command = append([]string{path,
		"--kubeconfig", kubeconfigFile(t, config), "--metrics-bind-address", "0", "--log-format", "console",
		"--health-probe-bind-address", "127.0.0.1:" + p.port, "--mcp-bind-address", "127.0.0.1:" + p.mcpPort,
		"--bind-address", "127.0.0.1", "--secure-port", p.apiPort,
	}, args...)
	p.environment = append(append(os.Environ(), kubetest.Detectors()...), "POD_NAMESPACE="+operatorNamespace, "POD_NAME="+p.name, "HTTP_PROXY="+proxy, "NO_PROXY=")
	return p
}

// run starts the program until the test ends, and then checks its log and its
// requests.
func (p *process) run(t *testing.T) {
	t.Helper()
	p.start(t)
	t.Cleanup(func() {
		p.kill()
		forgetReplica(t, p)
		logs := "\n" + p.logs.String()
		for _, fault := range []string{"WARNING: DATA RACE", "SHOULD NOT HAPPEN", "\npanic: ", "\nfatal error: ", "Observed a panic", "Recovered from a panic"} {
			if strings.Contains(logs, fault) {
				t.Errorf("the program's log contains %q", fault)
			}
		}
		if t.Failed() {
			t.Logf("the program's log:%s", logs)
		}
		notForbidden(t, p)
	})
}

// start starts or restarts the program, like a container, with the same name and
// ports.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(p.command[0], p.command[1:]...)
	p.cmd.Env = p.environment
	p.cmd.Stdout, p.cmd.Stderr = p.logs, p.logs
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting the program: %v", err)
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
}

// credentialOf returns the credential id of a ServiceAccount's token in the audit log.
func credentialOf(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatal("the token of the ServiceAccount is no JSON Web Token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		ID string `json:"jti"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.ID == "" {
		t.Fatalf("the token of the ServiceAccount has no id: %v", err)
	}
	return "JTI=" + claims.ID
}

// ready waits until the program is ready.
func (p *process) ready(t *testing.T) {
	t.Helper()
	polltest.Eventually(t, "the program is ready", func(ctx context.Context) error {
		select {
		case <-p.ended:
			t.Fatalf("the program has ended:\n%s", p.logs)
		default:
		}
		return httpOK(ctx, "http://127.0.0.1:"+p.port+"/readyz")
	})
}

// terminate stops the program like the kubelet, and returns its exit code.
func (p *process) terminate(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("ending the program: %v", err)
	}
	select {
	case <-p.ended:
	// If the program does not end in time, the exit code shows it.
	case <-polltest.Context(t).Done():
		t.Fatalf("the program still runs long after SIGTERM:\n%s", p.logs)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("sending signal %v to the program: %v", s, err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func httpOK(ctx context.Context, address string) error {
	return httpOKWith(ctx, http.DefaultClient, address)
}

func httpOKWith(ctx context.Context, client *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, response.Status)
	}
	return nil
}

// coders is an HTTP proxy from the in-cluster names of control planes to fake servers.
type coders struct {
	mu    sync.Mutex
	hosts map[string]*url.URL
	// lists are the queries of workspace lists, by host.
	lists map[string][]url.Values
	// created counts the workspaces that Coder created on request, by name.
	created map[string]int
}

// startOperator starts the operator with such a proxy, and waits until it is ready.
func startOperator(t *testing.T, args ...string) (*coders, *process) {
	t.Helper()
	names, proxy := startCoders(t)
	p := startProcess(t, proxy, args...)
	p.ready(t)
	return names, p
}

// startCoders returns the proxy and its address.
func startCoders(t *testing.T) (*coders, string) {
	t.Helper()
	c := &coders{hosts: map[string]*url.URL{}, lists: map[string][]url.Values{}, created: map[string]int{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: mcptest.ProxyHandler(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			target := c.hosts[r.In.URL.Hostname()]
			if target == nil {
				target = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
			}
			if host := r.In.URL.Hostname(); r.In.URL.Path == "/api/v2/workspaces" {
				c.lists[host] = append(c.lists[host], r.In.URL.Query())
			}
			r.SetURL(target)
			if r.In.Method == http.MethodPost {
				// Coder may complete a creation whose replica was killed, so it is counted.
				r.Out = r.Out.WithContext(context.WithoutCancel(r.Out.Context()))
			}
		},
		ModifyResponse: c.count,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			// Like a host that does not respond: the connection is closed.
			panic(http.ErrAbortHandler)
		},
	}), ReadHeaderTimeout: time.Minute}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "the proxy has ended:", err)
		}
	}()
	t.Cleanup(func() { _ = server.Close() })
	return c, "http://" + listener.Addr().String()
}

// add makes a server available under the name of a control plane's Service.
func (c *coders) add(t *testing.T, ns, name string, server *coderdtest.Server) {
	t.Helper()
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts[name+"."+ns+".svc.cluster.local"] = target
}

// loads returns how often all workspaces of a control plane were read, and how often
// only their number.
func (c *coders) loads(ns, name string) (all, counted int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, query := range c.lists[name+"."+ns+".svc.cluster.local"] {
		switch offset, _ := strconv.Atoi(query.Get("offset")); {
		case query.Get("q") != "": // Some of them, by their ids.
		case offset == 0:
			all++
		case query.Get("limit") == "1":
			counted++
		}
	}
	return all, counted
}

// kubeconfigFile writes a kubeconfig for a client configuration.
func kubeconfigFile(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"test": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"test": {
			Token: config.BearerToken, ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// syncBuffer is a buffer that a process writes while a test reads.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(data)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
