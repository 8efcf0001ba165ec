package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestClientsOfBothErasAreToldWhatTheServerIs(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			h := w.of(t, content(addWhoAmI), func(c *Config, _ *limits) { c.Subscriptions = newFakeSource() })
			told := h.connect(t, w.protocol, "alice", nil).InitializeResult()
			if told.ProtocolVersion != w.protocol {
				t.Errorf("they speak %s", told.ProtocolVersion)
			}
			want := &mcp.Implementation{Name: "coder-k8s", Title: "Coder on Kubernetes", Version: "v1.2.3", WebsiteURL: "https://github.com/coder-k8s/coder-k8s"}
			if diff := cmp.Diff(want, told.ServerInfo); diff != "" {
				t.Errorf("server info (-want +got):\n%s", diff)
			}
			if told.Instructions != Instructions {
				t.Errorf("instructions are %q", told.Instructions)
			}
			// Only capabilities that the server supports: no logging, no notifications
			// about lists that never change, and subscriptions only if there is a stream
			// for notifications.
			capabilities := told.Capabilities
			if capabilities.Logging != nil { //nolint:staticcheck // It must not be offered.
				t.Error("logging is offered")
			}
			if capabilities.Tools == nil || capabilities.Tools.ListChanged || capabilities.Resources == nil || capabilities.Resources.ListChanged {
				t.Errorf("capabilities are %+v and %+v", capabilities.Tools, capabilities.Resources)
			}
			if want := w.protocol == modernProtocol || w.sessions; capabilities.Resources.Subscribe != want {
				t.Errorf("subscriptions are offered: %t", capabilities.Resources.Subscribe)
			}
		})
	}
}

func TestProgressReachesTheClient(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			h := w.of(t, content(func(server *mcp.Server) {
				addTool(server, "work", func(ctx context.Context, req *mcp.CallToolRequest) (string, error) {
					for i := range 3 {
						progress := &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Message: "step"}
						if err := req.Session.NotifyProgress(ctx, progress); err != nil {
							return "", err
						}
					}
					return "done", nil
				})
			}))
			steps := make(chan float64, 3)
			c := h.connect(t, w.protocol, "alice", &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) { steps <- req.Params.Progress },
			})
			params := &mcp.CallToolParams{Name: "work"}
			params.SetProgressToken("token")
			if _, err := c.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			for want := 1.0; want <= 3; want++ {
				if got := receive(t, "progress", steps); got != want {
					t.Errorf("progress %v came instead of %v", got, want)
				}
			}
		})
	}
}

func TestACancelledCallReachesTheTool(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}, 1), make(chan error, 1)
			h := w.of(t, content(addWaiting(began, ended)))
			c := h.connect(t, w.protocol, "alice", nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _, _ = c.CallTool(ctx, &mcp.CallToolParams{Name: "wait"}) }()
			receive(t, "the tool", began)
			cancel()
			if err := receive(t, "the end of the tool", ended); !errors.Is(err, context.Canceled) {
				t.Errorf("the tool ended with %v", err)
			}
			polltest.Eventually(t, "the call is written", func() bool { return len(h.logs.Lines(`"outcome"="cancelled"`)) == 1 })
		})
	}
}

func TestADroppedConnectionEndsTheCallWhereNothingElseCouldCarryTheAnswer(t *testing.T) {
	for _, protocol := range []string{modernProtocol, legacyProtocol, ""} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			began, ended := make(chan struct{}, 1), make(chan error, 1)
			h := newHarness(t, content(addWaiting(began, ended)))
			ctx, drop := context.WithCancel(t.Context())
			r, err := mcptest.Message{Protocol: protocol, Token: "alice", Method: methodCallTool, Params: map[string]any{"name": "wait"}}.Request(ctx, h.url)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				if response, err := http.DefaultClient.Do(r); err == nil {
					response.Body.Close()
				}
			}()
			receive(t, "the tool", began)
			drop()
			if err := receive(t, "the end of the tool", ended); !errors.Is(err, context.Canceled) {
				t.Errorf("the tool ended with %v", err)
			}
		})
	}
}

func TestCallsHaveADeadline(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}, 1), make(chan error, 1)
			h := w.of(t, content(addWaiting(began, ended)), func(_ *Config, l *limits) { l.call = 50 * time.Millisecond })
			if result := h.connect(t, w.protocol, "alice", nil).Call(t, "wait", nil); !result.IsError {
				t.Error("the call succeeded")
			}
			if err := receive(t, "the end of the tool", ended); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the tool ended with %v", err)
			}
			if got := h.logs.Lines(`"outcome"="timeout"`); len(got) != 1 {
				t.Errorf("lines of the log: %q", got)
			}
		})
	}
}

func TestAPanicEndsTheRequestAlone(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			h := w.of(t, content(func(server *mcp.Server) {
				addWhoAmI(server)
				addTool(server, "panics", func(context.Context, *mcp.CallToolRequest) (string, error) { panic("at 10.1.2.3:443") })
			}))
			c := h.connect(t, w.protocol, "alice", nil)
			_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "panics"})
			var rpc *jsonrpc.Error
			if !errors.As(err, &rpc) || rpc.Message != "internal error; see the log of the server for details" {
				t.Errorf("the client got %v", err)
			}
			if got := mcptest.Text(c.Call(t, "whoami", nil)); got != "alice of " {
				t.Errorf("after that it answers %q", got)
			}
			if got := h.logs.Lines("Recovered from a panic"); len(got) != 1 || !strings.Contains(got[0], "10.1.2.3:443") || !strings.Contains(got[0], "server_test.go") {
				t.Errorf("the log says %q", got)
			}
			if got := h.logs.Lines(`"tool"="panics"`); len(got) != 1 || !strings.Contains(got[0], `"outcome"="error"`) {
				t.Errorf("the record says %q", got)
			}
		})
	}
}

func TestListsComeInPagesInOneOrder(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			h := w.of(t, content(func(server *mcp.Server) {
				for i := range 7 {
					addTool(server, fmt.Sprintf("tool_%d", i), func(context.Context, *mcp.CallToolRequest) (string, error) { return "", nil })
				}
			}), func(_ *Config, l *limits) { l.pageSize = 3 })
			c := h.connect(t, w.protocol, "alice", nil)
			var names []string
			var sizes []int
			for cursor := ""; ; {
				page, err := c.ListTools(t.Context(), &mcp.ListToolsParams{Cursor: cursor})
				if err != nil {
					t.Fatal(err)
				}
				sizes = append(sizes, len(page.Tools))
				for _, tool := range page.Tools {
					names = append(names, tool.Name)
				}
				if cursor = page.NextCursor; cursor == "" {
					break
				}
			}
			if diff := cmp.Diff([]int{3, 3, 1}, sizes); diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
			if !slices.IsSorted(names) || len(names) != 7 {
				t.Errorf("tools are %q", names)
			}
		})
	}
}

func TestAnswersAreCachedForTheCallerAlone(t *testing.T) {
	h := newHarness(t, content(func(server *mcp.Server) {
		addWhoAmI(server)
		server.AddResource(&mcp.Resource{Name: "x", URI: "test://x"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: "x"}}}, nil
		})
	}))
	tests := map[string]struct {
		method string
		params map[string]any
		want   string
	}{
		"discover":   {"server/discover", nil, `"ttlMs":30000,"cacheScope":"private"`},
		"tools":      {"tools/list", nil, `"ttlMs":30000,"cacheScope":"private"`},
		"resources":  {"resources/list", nil, `"ttlMs":30000,"cacheScope":"private"`},
		"a resource": {"resources/read", map[string]any{"uri": "test://x"}, `"ttlMs":0,"cacheScope":"private"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, body := h.send(t, mcptest.Message{Protocol: modernProtocol, Token: "alice", Method: tt.method, Params: tt.params}); !strings.Contains(body, tt.want) {
				t.Errorf("the answer is %s", body)
			}
		})
	}
}

func TestBatchesAreRefused(t *testing.T) {
	h := newHarness(t, content(addWhoAmI))
	for name, body := range map[string]string{"plain": `[]`, "after space": "\r\n\t [{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]"} {
		t.Run(name, func(t *testing.T) {
			response, answer := h.send(t, mcptest.Message{Token: "alice", Body: body})
			if response.StatusCode != http.StatusBadRequest || !strings.Contains(answer, "one message in each request") {
				t.Errorf("%d %s", response.StatusCode, answer)
			}
		})
	}
}

func FuzzIsBatch(f *testing.F) {
	for _, seed := range []string{"", "[]", " \n[", "{}", "\x00[", strings.Repeat(" ", 40) + "{\"a\":[]}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
		trimmed := strings.TrimLeft(body, " \t\r\n")
		if got := isBatch(r); got != strings.HasPrefix(trimmed, "[") {
			t.Errorf("got %t", got)
		}
		rest, err := io.ReadAll(r.Body)
		if err != nil || string(rest) != trimmed {
			t.Errorf("what is left is %q, %v", rest, err)
		}
	})
}

func TestWhichClientsNeedNoSession(t *testing.T) {
	tests := map[string]struct {
		method, version, named string
		want                   bool
	}{
		"modern":                                   {http.MethodPost, modernProtocol, "tools/list", true},
		"a later one":                              {http.MethodPost, "2027-01-01", "", true},
		"modern and reads":                         {http.MethodGet, modernProtocol, "", true},
		"legacy":                                   {http.MethodPost, legacyProtocol, "", false},
		"legacy that names the method":             {http.MethodPost, legacyProtocol, "tools/list", false},
		"the first request of legacy":              {http.MethodPost, "", "", false},
		"modern that does not say which":           {http.MethodPost, "", "server/discover", true},
		"a stream of legacy before versions":       {http.MethodGet, "", "", false},
		"the end of a session of legacy, long ago": {http.MethodDelete, "", "x", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), tt.method, "/mcp", http.NoBody)
			for header, value := range map[string]string{"Mcp-Protocol-Version": tt.version, "Mcp-Method": tt.named} {
				if value != "" {
					r.Header.Set(header, value)
				}
			}
			if got := isSessionless(r); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestWithoutSessionsOnlyPostIsServed(t *testing.T) {
	h := newHarness(t)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r, err := http.NewRequestWithContext(t.Context(), method, h.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s gives %d", method, response.StatusCode)
		}
	}
}

func TestCloseLetsCallsEnd(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			began, finish := make(chan struct{}, 1), make(chan struct{})
			h := w.of(t, content(func(server *mcp.Server) {
				addTool(server, "work", func(context.Context, *mcp.CallToolRequest) (string, error) {
					began <- struct{}{}
					<-finish
					return "done", nil
				})
			}))
			c := h.connect(t, w.protocol, "alice", nil)
			answers := make(chan string, 1)
			go func() {
				result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "work"})
				if err != nil {
					answers <- err.Error()
					return
				}
				answers <- mcptest.Text(result)
			}()
			receive(t, "the tool", began)
			closed := make(chan error, 1)
			go func() { closed <- h.Close(t.Context()) }()
			polltest.Eventually(t, "further requests are refused", func() bool {
				response, body := h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "bob", Method: "ping"})
				return response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "" && strings.Contains(body, "this replica is stopping")
			})
			select {
			case err := <-closed:
				t.Fatalf("it did not wait for the call: %v", err)
			default:
			}
			close(finish)
			if err := receive(t, "the end", closed); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if got := receive(t, "the answer", answers); got != "done" {
				t.Errorf("the call ended with %q", got)
			}
		})
	}
}

func TestCloseCancelsCallsThatDoNotEnd(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}, 1), make(chan error, 1)
			h := w.of(t, content(addWaiting(began, ended)))
			c := h.connect(t, w.protocol, "alice", nil)
			go func() { _, _ = c.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait"}) }()
			receive(t, "the tool", began)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := h.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
			if err := receive(t, "the end of the tool", ended); !errors.Is(err, context.Canceled) {
				t.Errorf("the tool ended with %v", err)
			}
			polltest.Eventually(t, "sessions have ended too", func() bool { return h.openSessions() == 0 })
		})
	}
}

func TestTheSDKFillsNoLog(t *testing.T) {
	h := newHarness(t)
	h.send(t, mcptest.Message{Protocol: modernProtocol, Token: "alice", Method: "ping"})
	h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Method: "tools/call", Params: map[string]any{"name": 5}})
	if got := h.logs.String(); got != "" {
		t.Errorf("the log says %s", got)
	}
}

// TestTheSDKIsHeardAtDetail checks that the SDK's messages are logged at the detail level.
func TestTheSDKIsHeardAtDetail(t *testing.T) {
	logs := &mcptest.LogBuffer{}
	h := newHarness(t, func(c *Config, _ *limits) { c.Logger = logs.LoggerAt(1) })
	h.send(t, mcptest.Message{Protocol: modernProtocol, Token: "alice", Method: "ping"})
	if got := logs.Lines("method removed in the new protocol"); len(got) != 1 || !strings.Contains(got[0], `"level"=1`) {
		t.Errorf("the log says %q", got)
	}
}

func TestManyCallsLeaveNothingBehind(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			h := w.of(t, content(addWhoAmI))
			c := h.connect(t, w.protocol, "alice", nil)
			c.Call(t, "whoami", nil)
			before := goroutines()
			for range 50 {
				c.Call(t, "whoami", nil)
			}
			settled(t, before)
		})
	}
}
