package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// server is a Prometheus that runs for a test.
type server struct{ address string }

// startPrometheus starts a Prometheus with a configuration.
func startPrometheus(t *testing.T, config any) *server {
	t.Helper()
	program := tool(t, "prometheus")
	directory := t.TempDir()
	s := &server{address: "127.0.0.1:" + kubetest.FreePort(t)}
	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program,
		"--config.file="+writeYAML(t, directory, "prometheus.yaml", config),
		"--storage.tsdb.path="+filepath.Join(directory, "data"),
		"--web.listen-address="+s.address, "--log.level=warn")
	output, err := os.Create(filepath.Join(directory, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = command.Wait()
		if t.Failed() {
			content, _ := os.ReadFile(output.Name())
			t.Logf("what Prometheus said:\n%s", content)
		}
	})
	polltest.Eventually(t, "Prometheus answers", func() error {
		_, err := s.get("/-/ready", nil)
		return err
	})
	return s
}

// get calls the HTTP API.
func (s *server) get(path string, parameters url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), polltest.Timeout())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+path+"?"+parameters.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", path, response.Status, strings.TrimSpace(string(content)))
	}
	return content, nil
}

// data decodes the data of a response.
func (s *server) data(path string, parameters url.Values, into any) error {
	content, err := s.get(path, parameters)
	if err != nil {
		return err
	}
	var answer struct {
		Data     json.RawMessage `json:"data"`
		Warnings []string        `json:"warnings"`
	}
	if err := json.Unmarshal(content, &answer); err != nil {
		return err
	}
	if len(answer.Warnings) > 0 {
		return fmt.Errorf("Prometheus warns: %s", strings.Join(answer.Warnings, "; "))
	}
	return json.Unmarshal(answer.Data, into)
}

// series runs a query, and returns the number of its series.
func (s *server) series(query string) (int, error) {
	var data struct {
		Result []json.RawMessage `json:"result"`
	}
	err := s.data("/api/v1/query", url.Values{"query": {query}}, &data)
	return len(data.Result), err
}

// forPrometheus replaces Grafana's variables by durations.
func forPrometheus(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$__range", "5m").Replace(expr)
}

// tool returns the path of a program that test/monitoring/build.sh built.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("TOOLS_DIR"), name)
	if _, err := os.Stat(path); os.Getenv("TOOLS_DIR") == "" || err != nil {
		t.Skipf("$TOOLS_DIR has no %s: test/monitoring/build.sh builds it", name)
	}
	return path
}
