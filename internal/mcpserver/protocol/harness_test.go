package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

const (
	modernProtocol = mcptest.Modern
	legacyProtocol = mcptest.Legacy
)

// ways are the protocol revisions, for features that must work in each.
var ways = map[string]string{"modern": modernProtocol, "legacy": legacyProtocol}

// harness is a server behind HTTP. Callers are identified by their token.
type harness struct {
	*Server
	url  string
	logs *mcptest.LogBuffer
	http *httptest.Server
}

func testMetrics(t testing.TB) *Metrics {
	t.Helper()
	metrics, err := NewMetrics(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return metrics
}

// newHarness starts a server. changes modify its configuration and its limits.
func newHarness(t testing.TB, changes ...func(*Config, *limits)) *harness {
	t.Helper()
	h := &harness{logs: &mcptest.LogBuffer{}}
	config := Config{Version: "v1.2.3", Env: toolset.Env{Kube: &callers.Kube{}}, Metrics: testMetrics(t), Logger: h.logs.LoggerAt(0)}
	l := defaultLimits()
	for _, change := range changes {
		change(&config, &l)
	}
	var err error
	if h.Server, err = newServer(config, l); err != nil {
		t.Fatal(err)
	}
	h.http = httptest.NewServer(identified(h.Server))
	h.url = h.http.URL
	t.Cleanup(h.http.Close)
	return h
}

func content(add func(*mcp.Server)) func(*Config, *limits) {
	return func(c *Config, _ *limits) { c.Content = add }
}

// identified replaces the HTTP middleware and the authentication. A token consists of the
// user name, then groups, then the remaining validity in milliseconds: alice,
// alice/admins or alice/admins/500. Without a token there is no caller.
func identified(next http.Handler) http.Handler {
	var last atomic.Int64
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		parts := strings.Split(token, "/")
		caller := &user.DefaultInfo{Name: parts[0]}
		info := &auth.TokenInfo{UserID: parts[0], Extra: map[string]any{"user": caller}}
		if len(parts) > 1 {
			caller.Groups = []string{parts[1]}
		}
		if len(parts) > 2 {
			milliseconds, err := strconv.Atoi(parts[2])
			if err != nil {
				return nil, err
			}
			info.Expiration = time.Now().Add(time.Duration(milliseconds) * time.Millisecond)
		}
		return info, nil
	}
	known := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(tracing.RequestIDHeader, fmt.Sprintf("request-%d", last.Add(1)))
		if r.Header.Get("Authorization") == "" {
			next.ServeHTTP(w, r)
			return
		}
		known.ServeHTTP(w, r)
	})
}

func (h *harness) connect(t testing.TB, protocol, token string, options *mcp.ClientOptions) *mcptest.Client {
	t.Helper()
	return mcptest.Endpoint{URL: h.url, Protocol: protocol, Token: token, Options: options}.Dial(t)
}

// toolFunc implements a test tool whose answer is text.
type toolFunc func(ctx context.Context, req *mcp.CallToolRequest) (string, error)

func addTool(server *mcp.Server, name string, run toolFunc) {
	tool := &mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}
	server.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := run(ctx, req)
		result := &mcp.CallToolResult{}
		if err != nil {
			result.SetError(err)
			return result, nil
		}
		result.Content = []mcp.Content{&mcp.TextContent{Text: text}}
		return result, nil
	})
}

// addWhoAmI adds a tool that returns the caller, its groups and the request ID.
func addWhoAmI(server *mcp.Server) {
	addTool(server, "whoami", func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
		caller, ok := request.UserFrom(ctx)
		if !ok {
			return "nobody", nil
		}
		return caller.GetName() + " of " + strings.Join(caller.GetGroups(), ","), nil
	})
}

// addWaiting adds a tool that reports its start, waits until its context ends, and reports
// the cause.
func addWaiting(began chan<- struct{}, ended chan<- error) func(*mcp.Server) {
	return func(server *mcp.Server) {
		addTool(server, "wait", func(ctx context.Context, _ *mcp.CallToolRequest) (string, error) {
			began <- struct{}{}
			select {
			case <-ctx.Done():
			case <-time.After(polltest.Timeout()):
				return "", errors.New("it was never cancelled")
			}
			ended <- ctx.Err()
			return "", ctx.Err()
		})
	}
}

// send sends one HTTP request and reads the whole response.
func (h *harness) send(t *testing.T, m mcptest.Message) (*http.Response, string) {
	t.Helper()
	return m.Send(t, h.url)
}

// receive waits for a value.
func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-polltest.Context(t).Done():
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
