package mcptest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// NewServer returns a server without tools. All its requests come from the caller; nil means
// that they have no caller.
func NewServer(caller user.Info, options *mcp.ServerOptions) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "v0"}, options)
	if caller != nil {
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				return next(request.WithUser(ctx, caller), method, req)
			}
		})
	}
	return server
}

// Connect connects a client to the server until the test ends. The options may be nil.
func Connect(t testing.TB, server *mcp.Server, client *mcp.ClientOptions, session *mcp.ClientSessionOptions) *mcp.ClientSession {
	t.Helper()
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	running, err := server.Connect(t.Context(), serverEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	connected, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, client).Connect(t.Context(), clientEnd, session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = connected.Close()
		_ = running.Wait()
	})
	return connected
}

// Text returns the text in the answer of a tool.
func Text(result *mcp.CallToolResult) string {
	var parts []string
	for _, content := range result.Content {
		if c, ok := content.(*mcp.TextContent); ok {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// LogBuffer collects log lines. Its zero value is empty.
type LogBuffer struct {
	mu    sync.Mutex
	lines strings.Builder
}

// Logger returns a logger that writes to the buffer, at all verbosity levels.
func (b *LogBuffer) Logger() logr.Logger { return b.LoggerAt(10) }

// LoggerAt returns a logger that writes to the buffer, up to a verbosity level.
func (b *LogBuffer) LoggerAt(verbosity int) logr.Logger {
	return funcr.New(func(prefix, args string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		fmt.Fprintln(&b.lines, prefix, args)
	}, funcr.Options{Verbosity: verbosity})
}

// String returns all that was logged.
func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lines.String()
}

// Lines returns the log lines that contain the text.
func (b *LogBuffer) Lines(text string) []string {
	var found []string
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// Series returns the series of a registry with their values, as "name{labels} value".
func Series(t testing.TB, registry prometheus.Gatherer) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			all = append(all, fmt.Sprintf("%s{%s} %g", family.GetName(), strings.Join(labels, ","), value))
		}
	}
	slices.Sort(all)
	return all
}

// ProxyHandler returns the proxy as a handler whose responses arrive whole. Without full duplex, a
// server of HTTP/1 stops reading the body of a request when the response begins. The proxy's
// transport, which may not have seen the end of the body yet, then breaks the response off
// (https://go.dev/issue/40747).
func ProxyHandler(proxy *httputil.ReverseProxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			panic(err)
		}
		proxy.ServeHTTP(w, r)
	})
}
