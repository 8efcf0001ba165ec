package mcpserver

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// soak runs clients that connect, make calls and disconnect, atOnce of them concurrently.
func soak(t testing.TB, h *harness, clients, atOnce, calls int) {
	t.Helper()
	var group sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i := range clients {
		group.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			client, err := mcptest.Endpoint{URL: h.url, Protocol: eras[i%2], Token: aliceToken, Options: &mcp.ClientOptions{}}.Connect(context.Background())
			if err != nil {
				t.Errorf("connecting: %v", err)
				return
			}
			defer client.End()
			for range calls {
				result, err := client.CallTool(context.Background(), &mcp.CallToolParams{Name: "list_control_planes", Arguments: map[string]any{}})
				if err != nil || result.IsError {
					t.Errorf("calling: %v, %v", result, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func TestClientsLeaveNothingBehind(t *testing.T) {
	h := running(t, func(c *Config) { c.Options.MaxInFlight = 0 })
	// The first clients create connections to the API server and cache entries that stay.
	soak(t, h, 2, 2, 1)
	settle := func() int {
		h.kube.CloseClientConnections()
		runtime.GC()
		return runtime.NumGoroutine()
	}
	before := settle()
	// With more clients at once, a busy machine would exceed the timeout of token reviews.
	soak(t, h, 200, 16, 3)
	// A few more connections to the API server may have been opened.
	polltest.Eventually(t, "the goroutines are as many as before", func() bool { return settle() <= before+5 })
	if strings.Contains(h.logs.String(), "anic") {
		t.Error("something panicked")
	}
}
