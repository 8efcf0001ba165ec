package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestClientsOfBothErasAreToldWhatTheServerIs(t *testing.T) {
	for name, protocol := range ways {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, content(addWhoAmI))
			told := h.connect(t, protocol, "alice", nil).InitializeResult()
			if told.ProtocolVersion != protocol {
				t.Errorf("they speak %s", told.ProtocolVersion)
			}
			want := &mcp.Implementation{Name: "coder-k8s", Title: "Coder on Kubernetes", Version: "v1.2.3", WebsiteURL: "https://github.com/coder-k8s/coder-k8s"}
			if diff := cmp.Diff(want, told.ServerInfo); diff != "" {
				t.Errorf("server info (-want +got):\n%s", diff)
			}
			if told.Instructions != Instructions {
				t.Errorf("instructions are %q", told.Instructions)
			}
			// Only capabilities that the server supports: no logging, and no notifications.
			capabilities := told.Capabilities
			if capabilities.Logging != nil { //nolint:staticcheck // It must not be offered.
				t.Error("logging is offered")
			}
			if capabilities.Tools == nil || capabilities.Tools.ListChanged || capabilities.Resources != nil {
				t.Errorf("capabilities are %+v and %+v", capabilities.Tools, capabilities.Resources)
			}
		})
	}
}

func TestProgressReachesTheClient(t *testing.T) {
	for name, protocol := range ways {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, content(func(server *mcp.Server) {
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
			c := h.connect(t, protocol, "alice", &mcp.ClientOptions{
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
	for name, protocol := range ways {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}, 1), make(chan error, 1)
			h := newHarness(t, content(addWaiting(began, ended)))
			c := h.connect(t, protocol, "alice", nil)
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
	for name, protocol := range ways {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}, 1), make(chan error, 1)
			h := newHarness(t, content(addWaiting(began, ended)), func(_ *Config, l *limits) { l.call = 50 * time.Millisecond })
			if result := h.connect(t, protocol, "alice", nil).Call(t, "wait", nil); !result.IsError {
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
	for name, protocol := range ways {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, content(func(server *mcp.Server) {
				addWhoAmI(server)
				addTool(server, "panics", func(context.Context, *mcp.CallToolRequest) (string, error) { panic("at 10.1.2.3:443") })
			}))
			c := h.connect(t, protocol, "alice", nil)
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
	for name, protocol := range ways {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, content(func(server *mcp.Server) {
				for i := range 7 {
					addTool(server, fmt.Sprintf("tool_%d", i), func(context.Context, *mcp.CallToolRequest) (string, error) { return "", nil })
				}
			}), func(_ *Config, l *limits) { l.pageSize = 3 })
			c := h.connect(t, protocol, "alice", nil)
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
	h := newHarness(t, content(addWhoAmI))
	for _, method := range []string{"server/discover", "tools/list"} {
		t.Run(method, func(t *testing.T) {
			if _, body := h.send(t, mcptest.Message{Protocol: modernProtocol, Token: "alice", Method: method}); !strings.Contains(body, `"ttlMs":30000,"cacheScope":"private"`) {
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

func TestOnlyPostIsServed(t *testing.T) {
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

func TestEachRequestHasItsOwnCaller(t *testing.T) {
	for name, protocol := range ways {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, content(addWhoAmI))
			c := h.connect(t, protocol, "alice/first", nil)
			for _, group := range []string{"first", "second", "third"} {
				c.SetToken("alice/" + group)
				if got := mcptest.Text(c.Call(t, "whoami", nil)); got != "alice of "+group {
					t.Errorf("the tool was called as %q", got)
				}
			}
			seen := map[string]bool{}
			for _, line := range h.logs.Lines(`"tool"="whoami"`) {
				_, rest, _ := strings.Cut(line, `"requestID"="`)
				id, _, _ := strings.Cut(rest, `"`)
				seen[id] = true
			}
			if len(seen) != 3 || seen[""] {
				t.Errorf("the calls have the request ids %v", seen)
			}
		})
	}
}

func TestWithoutAnIdentityThereIsNoCaller(t *testing.T) {
	h := newHarness(t, content(addWhoAmI))
	for _, protocol := range ways {
		m := mcptest.Message{Protocol: protocol, Method: methodCallTool, Params: map[string]any{"name": "whoami"}}
		if _, body := h.send(t, m); !strings.Contains(body, `"nobody"`) {
			t.Errorf("%s: the answer is %s", protocol, body)
		}
	}
}

// addAsking adds a tool that asks the user as in revision 2026-07-28.
func addAsking(server *mcp.Server) {
	tool := &mcp.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}
	server.AddTool(tool, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := req.Params.InputResponses["sure"].(*mcp.ElicitResult); ok {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer.Action + " " + req.Params.RequestState}}}, nil
		}
		return &mcp.CallToolResult{
			InputRequests: mcp.InputRequestMap{"sure": &mcp.ElicitParams{Message: "Sure?", RequestedSchema: &jsonschema.Schema{Type: "object"}}},
			RequestState:  "state",
		}, nil
	})
}

func TestTheUserIsAsked(t *testing.T) {
	h := newHarness(t, content(addAsking))
	c := h.connect(t, modernProtocol, "alice", &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if req.Params.Message != "Sure?" {
				return nil, fmt.Errorf("asked %q", req.Params.Message)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
	})
	if got := mcptest.Text(c.Call(t, "ask", nil)); got != "accept state" {
		t.Errorf("the tool got %q", got)
	}
	// There are two requests.
	var outcomes []string
	for _, line := range h.logs.Lines(`"tool"="ask"`) {
		_, rest, _ := strings.Cut(line, `"outcome"="`)
		outcome, _, _ := strings.Cut(rest, `"`)
		outcomes = append(outcomes, outcome)
	}
	if got := strings.Join(outcomes, " "); got != "needsinput ok" {
		t.Errorf("the record says %q", got)
	}
}

func TestThereAreNoStreams(t *testing.T) {
	h := newHarness(t, content(addWhoAmI))
	response, body := h.send(t, mcptest.Message{Protocol: modernProtocol, Token: "alice", Method: methodListen, Params: map[string]any{
		"notifications": map[string]any{"toolsListChanged": true},
	}})
	if response.StatusCode != http.StatusNotFound || !strings.Contains(body, `"code":-32601`) {
		t.Errorf("%s is answered %d %s", methodListen, response.StatusCode, body)
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
	for name, protocol := range ways {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, content(addWhoAmI))
			connections := &http.Transport{}
			c := mcptest.Endpoint{URL: h.url, Protocol: protocol, Token: "alice", Transport: connections}.Dial(t)
			// A busy machine opens a second connection, which stays.
			goroutines := func() int {
				connections.CloseIdleConnections()
				return runtime.NumGoroutine()
			}
			c.Call(t, "whoami", nil)
			before := goroutines()
			for range 50 {
				c.Call(t, "whoami", nil)
			}
			polltest.Eventually(t, fmt.Sprintf("there are %d goroutines again", before), func() bool { return goroutines() <= before })
		})
	}
}
