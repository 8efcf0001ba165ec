package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

func TestEachRequestOfASessionHasItsOwnCaller(t *testing.T) {
	for name, w := range ways {
		t.Run(name, func(t *testing.T) {
			h := w.of(t, content(addWhoAmI))
			c := h.connect(t, w.protocol, "alice/first", nil)
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
	h := newHarness(t, withSessions(2), content(addWhoAmI))
	for _, protocol := range []string{modernProtocol, legacyProtocol} {
		m := mcptest.Message{Protocol: protocol, Method: methodCallTool, Params: map[string]any{"name": "whoami"}}
		if protocol == legacyProtocol {
			m.Session, _, _ = h.initialize(t, "")
		}
		if _, body := h.send(t, m); !strings.Contains(body, `"nobody"`) {
			t.Errorf("%s: the answer is %s", protocol, body)
		}
	}
}

func TestASessionIsUsedByItsUserAlone(t *testing.T) {
	h := newHarness(t, withSessions(2), content(addWhoAmI))
	id, _, _ := h.initialize(t, "alice")
	response, body := h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "bob", Session: id, Method: methodCallTool, Params: map[string]any{"name": "whoami"}})
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("another user gets %d %s", response.StatusCode, body)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r := streamRequest(t, h, "bob", id)
		r.Method = method
		if got := h.open(t, r).response.StatusCode; got != http.StatusForbidden {
			t.Errorf("%s of another user gives %d", method, got)
		}
	}
	if _, body = h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Session: id, Method: methodCallTool, Params: map[string]any{"name": "whoami"}}); !strings.Contains(body, "alice of") {
		t.Errorf("its own user gets %s", body)
	}
}

func TestSessionsAreCapped(t *testing.T) {
	h := newHarness(t, withSessions(4))
	begin := func(user string) (string, int, string) {
		t.Helper()
		id, response, body := h.initialize(t, user)
		if response.StatusCode != http.StatusOK && response.Header.Get("Retry-After") == "" {
			t.Errorf("%d without Retry-After", response.StatusCode)
		}
		return id, response.StatusCode, body
	}
	var ids []string
	for range 2 {
		id, status, body := begin("alice")
		if status != http.StatusOK || id == "" {
			t.Fatalf("a session gives %d %s", status, body)
		}
		ids = append(ids, id)
	}
	if _, status, body := begin("alice"); status != http.StatusTooManyRequests || !strings.Contains(body, `user "alice" already has 2 sessions, which is the maximum`) {
		t.Errorf("beyond the share of a user: %d %s", status, body)
	}
	for range 2 {
		if _, status, body := begin("bob"); status != http.StatusOK {
			t.Fatalf("a session gives %d %s", status, body)
		}
	}
	if _, status, body := begin("carol"); status != http.StatusServiceUnavailable || !strings.Contains(body, "all 4 sessions of this server are in use") {
		t.Errorf("beyond the cap: %d %s", status, body)
	}
	if sessions, places := h.openSessions(), h.sessions.places.Total(); sessions != 4 || places != 4 {
		t.Errorf("%d sessions and %d places are counted", sessions, places)
	}
	// Clients without sessions are not affected.
	if response, body := h.send(t, mcptest.Message{Protocol: modernProtocol, Token: "carol", Method: "tools/list"}); response.StatusCode != http.StatusOK {
		t.Errorf("without a session: %d %s", response.StatusCode, body)
	}
	r := streamRequest(t, h, "alice", ids[0])
	r.Method = http.MethodDelete
	if got := h.open(t, r).response.StatusCode; got != http.StatusNoContent {
		t.Fatalf("DELETE gives %d", got)
	}
	polltest.Eventually(t, "the session has ended", func() bool { return h.openSessions() == 3 })
	if _, status, body := begin("carol"); status != http.StatusOK {
		t.Errorf("after one has ended: %d %s", status, body)
	}
}

// TestSessionsThatBeginAtOnceAreCapped holds requests open that may each begin a session,
// and checks that they are counted before the sessions begin.
func TestSessionsThatBeginAtOnceAreCapped(t *testing.T) {
	h := newHarness(t, withSessions(4))
	for i := range 4 {
		user := fmt.Sprintf("user-%d", i)
		leave, status, why := h.sessions.admit(user)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, why)
		}
		defer leave()
	}
	if _, status, _ := h.sessions.admit("carol"); status != http.StatusServiceUnavailable {
		t.Errorf("the fifth gets %d", status)
	}
}

// A client gets its response before the server has finished the request, and may
// immediately request another session.
func TestASessionIsCountedOnce(t *testing.T) {
	h := newHarness(t, withSessions(4))
	next, status := h.sessions.next, 0
	h.sessions.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		var leave func()
		if leave, status, _ = h.sessions.admit("alice"); leave != nil {
			leave()
		}
	})
	if id, _, body := h.initialize(t, "alice"); id == "" || status != http.StatusOK {
		t.Errorf("beside the first of two sessions the second gets %d; the first: %s", status, body)
	}
	if n := h.sessions.places.Total(); n != 1 {
		t.Errorf("one session is counted as %d", n)
	}
}

func TestARequestThatBeginsNoSessionTakesNone(t *testing.T) {
	h := newHarness(t, withSessions(2))
	for range 5 {
		if id, _, _ := h.initialize(t, "alice"); id == "" {
			break
		}
	}
	for range 5 {
		// This request needs a session and has none.
		h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "bob", Method: "tools/list"})
	}
	if id, _, body := h.initialize(t, "bob"); id == "" {
		t.Errorf("there is no place left: %s", body)
	}
	if n, sessions := h.sessions.places.Total(), h.openSessions(); n != sessions {
		t.Errorf("%d sessions are counted as %d", sessions, n)
	}
}

func TestSessionsThatAreNotUsedEnd(t *testing.T) {
	h := newHarness(t, withSessions(2), func(_ *Config, l *limits) { l.sessionIdle = 20 * time.Millisecond })
	id, _, _ := h.initialize(t, "alice")
	polltest.Eventually(t, "the session has ended", func() bool { return h.openSessions() == 0 })
	response, body := h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Session: id, Method: "tools/list"})
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("it gives %d %s", response.StatusCode, body)
	}
}

// In a session, a client may fetch its response on another connection, so only a
// cancellation by the client ends the work.
func TestADroppedConnectionOfASessionCancelsNothing(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	h := newHarness(t, withSessions(2), content(addWaiting(began, ended)))
	id, _, _ := h.initialize(t, "alice")
	ctx, drop := context.WithCancel(t.Context())
	r, err := mcptest.Message{Protocol: legacyProtocol, Token: "alice", Session: id, Method: methodCallTool, Params: map[string]any{"name": "wait"}}.Request(ctx, h.url)
	if err != nil {
		t.Fatal(err)
	}
	dropped := make(chan struct{})
	go func() {
		defer close(dropped)
		if response, err := http.DefaultClient.Do(r); err == nil {
			response.Body.Close()
		}
	}()
	receive(t, "the tool", began)
	drop()
	<-dropped
	// The server has time to notice the disconnect during a complete request.
	h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Session: id, Method: "ping", Body: `{"jsonrpc":"2.0","id":2,"method":"ping"}`})
	select {
	case err := <-ended:
		t.Fatalf("the tool ended with %v", err)
	default:
	}
	response, body := h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: "alice", Session: id, Body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`})
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("cancelling gives %d %s", response.StatusCode, body)
	}
	if err := receive(t, "the end of the tool", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the tool ended with %v", err)
	}
}

// The HTTP middleware does not count these calls, because their connections are closed.
func TestCallsThatOutliveTheirConnectionsAreCapped(t *testing.T) {
	began, ended := make(chan struct{}, 10), make(chan error, 10)
	h := newHarness(t, withSessions(4), content(addWaiting(began, ended)), func(c *Config, _ *limits) { c.MaxSessionCallsPerUser = 2 })
	id, _, _ := h.initialize(t, "alice")
	call := func(ctx context.Context, token, session string, n int) (int, string) {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait","arguments":{}}}`, n)
		r, err := mcptest.Message{Protocol: legacyProtocol, Token: token, Session: session, Body: body}.Request(ctx, h.url)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			return 0, err.Error()
		}
		return response.StatusCode, string(answer)
	}
	leave := func(token, session string, n int) {
		ctx, drop := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() { defer close(gone); call(ctx, token, session, n) }()
		receive(t, "the tool", began)
		drop()
		<-gone
	}
	leave("alice", id, 1)
	leave("alice", id, 2)
	if _, answer := call(t.Context(), "alice", id, 3); !strings.Contains(answer, "already has 2 requests in progress in sessions") {
		t.Errorf("the third call is answered %s", answer)
	}
	if lines := h.logs.Lines("Handled a call"); len(lines) != 1 || !strings.Contains(lines[0], `"outcome"="unavailable"`) {
		t.Errorf("the record is %q", lines)
	}
	other, _, _ := h.initialize(t, "bob")
	leave("bob", other, 1)
	cancel := func(token, session string, n int) {
		h.send(t, mcptest.Message{Protocol: legacyProtocol, Token: token, Session: session, Body: fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, n)})
		receive(t, "the end of the tool", ended)
	}
	// A cancellation is a notification, and frees a place.
	cancel("alice", id, 1)
	polltest.Eventually(t, "there is place", func() bool {
		return h.sessionCalls.Total() == 2
	})
	leave("alice", id, 4)
	cancel("alice", id, 2)
	cancel("alice", id, 4)
	cancel("bob", other, 1)
}

// addAsking adds a tool that asks the user as in revision 2026-07-28. In a session, the SDK
// sends the question as an elicitation request.
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
	for name, w := range ways {
		if w == (way{legacyProtocol, false}) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			h := w.of(t, content(addAsking))
			c := h.connect(t, w.protocol, "alice", &mcp.ClientOptions{
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
			// Without a session, there are two requests.
			var outcomes []string
			for _, line := range h.logs.Lines(`"tool"="ask"`) {
				_, rest, _ := strings.Cut(line, `"outcome"="`)
				outcome, _, _ := strings.Cut(rest, `"`)
				outcomes = append(outcomes, outcome)
			}
			want := "needsinput ok"
			if w.protocol == legacyProtocol {
				want = "ok"
			}
			if got := strings.Join(outcomes, " "); got != want {
				t.Errorf("the record says %q", got)
			}
		})
	}
}

func TestAClientThatCannotAskGetsASentence(t *testing.T) {
	h := newHarness(t, withSessions(2), content(addAsking))
	_, err := h.connect(t, legacyProtocol, "alice", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
	if err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("the call ended with %v", err)
	}
}
