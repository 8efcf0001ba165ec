//go:build conformance

package realserver

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// program is a running operator.
type program struct {
	// mcpURL is its MCP endpoint.
	mcpURL  string
	apiPort string
	health  string
	cmd     *exec.Cmd
	ended   chan struct{}
	// log is the file that it writes to.
	log string
}

// startProgram starts the program as the operator's ServiceAccount, until the test
// ends. Its log has the name and stays. Its calls to Coder go through a proxy.
func startProgram(t *testing.T, c *cluster, name, proxy string, args ...string) *program {
	t.Helper()
	apiPort, mcpPort, healthPort := kubetest.FreePort(t), kubetest.FreePort(t), kubetest.FreePort(t)
	p := &program{
		mcpURL: "http://127.0.0.1:" + mcpPort + "/mcp", apiPort: apiPort, health: "http://127.0.0.1:" + healthPort + "/readyz",
		ended: make(chan struct{}), log: filepath.Join(setting(t, "CONFORMANCE_LOGS"), name+".log"),
	}
	p.cmd = exec.Command(setting(t, "CONFORMANCE_PROGRAM"), append([]string{
		"--kubeconfig", kubeconfig(t, c), "--leader-elect=false", "--metrics-bind-address=0", "--log-format=json",
		"--health-probe-bind-address=127.0.0.1:" + healthPort, "--mcp-bind-address=127.0.0.1:" + mcpPort,
		"--bind-address=127.0.0.1", "--secure-port=" + apiPort,
		// The suites send requests faster than users.
		"--mcp-rate-limit=0",
	}, args...)...)
	p.cmd.Env = append(os.Environ(), "POD_NAMESPACE="+operatorNamespace, "POD_NAME=pod-"+apiPort, "HTTP_PROXY="+proxy, "NO_PROXY=")
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting the program: %v", err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { p.stop(t) })
	polltest.Eventually(t, "the program is ready", func() error {
		select {
		case <-p.ended:
			t.Fatalf("the program has ended: see %s", p.log)
		default:
		}
		return answersOK(t.Context(), p.health)
	})
	return p
}

// stop ends the program as the kubelet does.
func (p *program) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("ending the program: %v", err)
	}
	start := time.Now()
	select {
	case <-p.ended:
		t.Logf("the program ended %.1f s after SIGTERM", time.Since(start).Seconds())
	case <-polltest.Context(t).Done():
		t.Error("the program still runs long after SIGTERM")
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the program ended with %d: see %s", code, p.log)
	}
}

// cancelled returns nil if the server has cancelled a call for an object, according to
// its log.
func (p *program) cancelled(object string) error {
	log, err := os.Open(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct{ Name, Outcome string }
		// Lines that are not JSON objects do not report calls.
		_ = json.Unmarshal(lines.Bytes(), &line)
		if line.Name == object && line.Outcome == "cancelled" {
			return nil
		}
	}
	return cmp.Or(lines.Err(), fmt.Errorf("%s tells of no call about %s that was cancelled", p.log, object))
}

// kubeconfig writes a kubeconfig for the operator's ServiceAccount, with its usual
// roles.
func kubeconfig(t *testing.T, c *cluster) string {
	t.Helper()
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: c.config.Host, CertificateAuthorityData: c.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {Token: c.token(t, operatorNamespace, "coder-k8s", "")}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "kubeconfig", content)
}

func answersOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// withToken returns the address of a proxy in front of the server that adds the
// token to each request and changes nothing else: the official suite cannot send
// one.
func withToken(t *testing.T, address, token string) string {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mcptest.ProxyHandler(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			// The suite sends a wrong one to check that the server rejects it.
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		// The suite closes streams before they end, which is not an error.
		ErrorLog: log.New(io.Discard, "", 0),
	}))
	t.Cleanup(server.Close)
	return server.URL + target.Path
}
