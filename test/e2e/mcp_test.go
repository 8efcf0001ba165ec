//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// callMCP calls a tool over plain HTTP, as any client in the cluster would, and
// gives the status and the body.
func callMCP(t *testing.T, token, tool, arguments string) (int, string) {
	t.Helper()
	service := get(t, "-n", "coder-system", "service", "coder-k8s")
	url := fmt.Sprintf("http://%s:8090/mcp", field(service, "spec", "clusterIP"))
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "coder-k8s.coder-system.svc:8090"
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("MCP-Protocol-Version", "2025-11-25")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("calling the MCP server: %v", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("reading the MCP server's answer: %v", err)
	}
	return response.StatusCode, string(answer)
}
