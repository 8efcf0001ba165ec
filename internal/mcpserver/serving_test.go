package mcpserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestCallsMayFinishWhileTheServerEnds(t *testing.T) {
	for _, protocol := range eras {
		t.Run(protocol, func(t *testing.T) {
			h := newHarness(t)
			h.server.drain, h.server.stop = polltest.Timeout(), polltest.Timeout()
			h.start(t)
			entered, open := make(chan struct{}), make(chan struct{})
			h.kube.handle("GET "+workspacesPath, func(w http.ResponseWriter, _ *http.Request) {
				close(entered)
				<-open
				writeJSON(w, http.StatusOK, workspaceList(workspaceObject()))
			})
			session := h.connect(t, protocol, aliceToken)
			var group sync.WaitGroup
			group.Go(func() {
				result, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "list_workspaces", Arguments: map[string]any{"namespace": "coder"}})
				if err != nil || result.IsError {
					t.Errorf("the call that was in work ended with %v, %v", result, err)
				}
			})
			await(t, "the call reached the API server", entered)
			stopped := make(chan error, 1)
			go func() { stopped <- h.stop() }()
			polltest.Eventually(t, "the server ends", func() bool { return !h.server.serving.Load() })
			close(open)
			group.Wait()
			if err := <-stopped; err != nil {
				t.Errorf("Start returned %v, want nil", err)
			}
		})
	}
}

func TestCallsThatDoNotFinishAreCancelled(t *testing.T) {
	for _, protocol := range eras {
		t.Run(protocol, func(t *testing.T) {
			h := newHarness(t)
			h.server.drain, h.server.stop = 20*time.Millisecond, polltest.Timeout()
			h.start(t)
			entered, left := make(chan struct{}), make(chan struct{})
			h.kube.handle("GET "+workspacesPath, func(_ http.ResponseWriter, r *http.Request) {
				close(entered)
				<-r.Context().Done()
				close(left)
			})
			session := h.connect(t, protocol, aliceToken)
			go func() {
				_, _ = session.CallTool(context.Background(), &mcp.CallToolParams{Name: "list_workspaces", Arguments: map[string]any{"namespace": "coder"}})
			}()
			await(t, "the call reached the API server", entered)
			if err := h.stop(); err != nil {
				t.Errorf("Start returned %v, want nil", err)
			}
			await(t, "the call was cancelled", left)
			if err := h.server.Ready(httptest.NewRequest(http.MethodGet, "/readyz", nil)); err == nil {
				t.Error("a server that ended says that it is ready")
			}
		})
	}
}

func TestAClientThatSendsForEverIsCut(t *testing.T) {
	h := newHarness(t)
	h.server.drain, h.server.stop = time.Millisecond, 50*time.Millisecond
	h.start(t)
	conn, err := net.Dial("tcp", h.server.cfg.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Authorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", aliceToken)
	polltest.Eventually(t, "the request has come", func() bool {
		return len(h.kube.requests(http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews")) == 1
	})
	if err := h.stop(); err != nil {
		t.Errorf("Start returned %v, want nil", err)
	}
	// Well before bodyReadTimeout.
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("its connection is still open")
	}
}

func TestWhoWaitsAtTheEntranceDoesNotHoldTheEnd(t *testing.T) {
	// On a busy machine, the end alone may take longer than drainTime.
	polltest.Eventually(t, "a server ends while a token is reviewed", func() error {
		h := newHarness(t)
		h.server.drain, h.server.stop = 20*time.Millisecond, polltest.Timeout()
		h.start(t)
		entered, open := make(chan struct{}), make(chan struct{})
		h.kube.handle("POST /apis/authentication.k8s.io/v1/tokenreviews", func(http.ResponseWriter, *http.Request) {
			close(entered)
			<-open
		})
		defer close(open)
		go func() {
			if response, err := http.DefaultClient.Do(h.request(context.Background(), listTools)); err == nil {
				drain(response)
			}
		}()
		await(t, "the token is reviewed", entered)
		start := time.Now()
		if err := h.stop(); err != nil {
			t.Errorf("Start returned %v, want nil", err)
		}
		if took := time.Since(start); took > drainTime {
			return fmt.Errorf("a review of a token held the end for %s", took)
		}
		return nil
	})
}

func TestAnUnusedConnectionIsNotACall(t *testing.T) {
	h := newHarness(t)
	h.server.drain, h.server.stop = time.Millisecond, time.Second
	h.start(t)
	conn, err := net.Dial("tcp", h.server.cfg.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Connections are accepted in order, so after a request on another one the server has this one.
	response, err := http.DefaultClient.Do(h.request(context.Background(), listTools))
	if err != nil {
		t.Fatal(err)
	}
	drain(response)
	if err := h.stop(); err != nil {
		t.Errorf("Start returned %v, want nil", err)
	}
	if logs := h.logs.String(); !strings.Contains(logs, "Closing connections") || strings.Contains(logs, "Cancelling calls") {
		t.Errorf("the log is\n%s", logs)
	}
}

func TestServesTLS(t *testing.T) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := running(t, func(c *Config) {
		c.Options.TLSCertFile, c.Options.TLSKeyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Post(strings.Replace(h.url, "http://", "https://", 1), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("the answer is %d, want 401", response.StatusCode)
	}
}

func TestReadyFollowsListenerAPIServerAndTokenReview(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	h := newHarness(t, func(c *Config) { c.Clock = clk })
	ready := func() error { return h.server.Ready(httptest.NewRequest(http.MethodGet, "/readyz", nil)) }
	if err := ready(); err == nil {
		t.Error("ready before it listens")
	}
	h.start(t)
	if err := ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if body, status := serve(h, "/readyz", nil); status != http.StatusOK {
		t.Errorf("/readyz gives %d %s", status, body)
	}

	steps := []struct {
		what  string
		down  bool
		token http.HandlerFunc
		says  string
	}{
		{"tokens cannot be reviewed", false, func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, http.StatusForbidden, "Forbidden") }, "tokens cannot be checked"},
		{"tokens can be reviewed again", false, h.kube.reviewToken, ""},
		{"the API server is away", true, h.kube.reviewToken, "the API server does not respond"},
		{"it is back", false, h.kube.reviewToken, ""},
	}
	for _, step := range steps {
		h.kube.set(func(k *kubeAPI) { k.down = step.down })
		h.kube.handle("POST /apis/authentication.k8s.io/v1/tokenreviews", step.token)
		clk.Step(time.Minute)
		err := ready()
		if (err == nil) != (step.says == "") || (err != nil && !strings.Contains(err.Error(), step.says)) {
			t.Errorf("when %s, Ready says %v, want %q", step.what, err, step.says)
		}
		if err != nil {
			body, status := serve(h, "/readyz", nil)
			if status != http.StatusServiceUnavailable || strings.TrimSpace(body) != "not ready" {
				t.Errorf("/readyz gives %d %q, want 503 and no detail", status, body)
			}
		}
	}
}

func TestProbesDoNotAddToTheLoad(t *testing.T) {
	h := running(t, func(c *Config) { c.Clock = clocktesting.NewFakeClock(time.Now()) })
	for range 20 {
		if _, status := serve(h, "/readyz", nil); status != http.StatusOK {
			t.Fatalf("/readyz gives %d", status)
		}
	}
	if got := len(h.kube.requests("", "/version")); got != 1 {
		t.Errorf("20 probes asked the API server %d times", got)
	}
}
