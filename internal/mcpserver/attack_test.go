package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// hostileNames would change the target if they were inserted without escaping into a path,
// a query, a header or a log line.
var hostileNames = []string{
	"../../secrets/x", "..", ".", "a/../../secrets/x", "x/secrets/y", "/api/v1/secrets", "x/proxy/y",
	"..%2f..%2fsecrets%2fx", "%2e%2e", "a%00", "x?watch=true", "x#y", `..\..\secrets`, "x;y", "x,metadata.name=y",
	"x\r\nImpersonate-User: admin", "x\n\"outcome\"=\"ok\"", "x\u2028\x1b[31m\u202ey", "\x00", " ", strings.Repeat("a", 5000),
}

// ourPaths matches all paths that the tools and prompts use. Secrets are not
// among them.
var ourPaths = regexp.MustCompile(strings.ReplaceAll(`^(/version|/apis/aggregation\.coder\.com/v1alpha1`+
	`|/apis/coder\.com/v1alpha1(/namespaces/NAME)?/(codercontrolplanes|coderprovisioners|coderworkspaceproxies)(/NAME(/scale)?)?`+
	`|/apis/aggregation\.coder\.com/v1alpha1(/namespaces/NAME)?/(coderworkspaces|codertemplates|codertemplateversions)(/NAME(/start|/orphan|/log|/files|/parameters)?)?`+
	`|/apis/apps/v1/namespaces/NAME/(deployments|replicasets)(/NAME)?`+
	`|/api/v1(/namespaces/NAME)?/(pods|persistentvolumeclaims|events|services|endpoints)(/NAME(/log)?)?`+
	`|/apis/discovery\.k8s\.io/v1/namespaces/NAME/endpointslices)$`, "NAME", `[^/]+`))

// isOurs reports whether a path matches ourPaths and none of its segments contains a
// separator after unescaping, as a proxy might unescape it.
func isOurs(u *url.URL) bool {
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		name, err := url.PathUnescape(segment)
		if err != nil || name == "." || name == ".." || strings.ContainsAny(name, `/%`) {
			return false
		}
	}
	return ourPaths.MatchString(u.EscapedPath())
}

// withEverything makes the API server return an object for every request, so that a call
// continues to its next request.
func withEverything(t testing.TB, h *kubeAPI) func(*Config) {
	infos := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	return func(c *Config) {
		mapper := testrestmapper.TestOnlyStaticRESTMapper(c.Scheme)
		c.Mapper = mapper
		h.set(func(k *kubeAPI) {
			k.otherwise = func(w http.ResponseWriter, r *http.Request) {
				info, err := infos.NewRequestInfo(r)
				if err != nil {
					t.Error(err)
				}
				group := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
				kind, err := mapper.KindFor(group.WithResource(info.Resource))
				switch {
				case err != nil:
					writeStatus(w, http.StatusNotFound, "NotFound")
				case len(info.Parts) == 1:
					writeJSON(w, http.StatusOK, map[string]any{"apiVersion": group.String(), "kind": kind.Kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
				default:
					writeJSON(w, http.StatusOK, map[string]any{
						"apiVersion": group.String(), "kind": kind.Kind,
						"metadata": map[string]any{"namespace": info.Namespace, "name": info.Parts[1], "uid": "1", "resourceVersion": "1"},
					})
				}
			}
		})
	}
}

// send sends one message, as a client of the older protocol without a session.
func (h *harness) send(t testing.TB, method string, params any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, callers.MCPPath, strings.NewReader(string(body)))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+aliceToken)
	w := httptest.NewRecorder()
	h.server.handler.ServeHTTP(w, r)
	return w.Body.String()
}

// argument is the schema of a tool's argument in tools/list.
type argument struct {
	Type string
	Enum []string
}

type listedTool struct {
	Name        string
	InputSchema struct{ Properties map[string]argument }
}

func (h *harness) listTools(t testing.TB) []listedTool {
	t.Helper()
	answer := h.send(t, "tools/list", map[string]any{})
	var listed struct{ Result struct{ Tools []listedTool } }
	_, data, _ := strings.Cut(answer, "data: ")
	if err := json.Unmarshal([]byte(data), &listed); err != nil || len(listed.Result.Tools) == 0 {
		t.Fatalf("the tools are %v: %s", err, answer)
	}
	return listed.Result.Tools
}

// plausible returns a valid value for every argument.
func (tool listedTool) plausible() map[string]any {
	values := map[string]any{}
	for name, argument := range tool.InputSchema.Properties {
		switch {
		case name == "wait", name == "dryRun":
		case name == "template" && tool.Name == "get_build_logs", name == "build":
		case len(argument.Enum) > 0:
			values[name] = argument.Enum[0]
		case name == "template":
			values[name] = "coder.t"
		case name == "phase":
			values[name] = "Running"
		case name == "ttl":
			values[name] = "8h"
		case name == "owner", name == "namespace":
			values[name] = "coder"
		case name == "name" && tool.Name == "create_workspace":
			values[name] = "dev"
		case argument.Type == "string" && name != "cursor" && name != "continue" && name != "versionID":
			values[name] = "default.alice.dev"
		case argument.Type == "boolean":
			values[name] = true
		}
	}
	return values
}

// TestNoArgumentLeadsElsewhere passes hostile names as each argument of each tool and
// prompt, and checks the requests to the Kubernetes API.
func TestNoArgumentLeadsElsewhere(t *testing.T) {
	kube := newKubeAPI(t)
	h := newReplica(t, kube, withEverything(t, kube), func(c *Config) { c.Options.MaxInFlight = 0 })
	calls := 0
	ask := func(method string, params map[string]any) {
		t.Helper()
		calls++
		answer := h.send(t, method, params)
		for _, inner := range []string{"panic", "goroutine", ".go:", "127.0.0.1", ownToken} {
			if strings.Contains(answer, inner) {
				t.Errorf("%s %v: the answer tells %q: %s", method, params, inner, answer)
			}
		}
	}
	for _, tool := range h.listTools(t) {
		values := tool.plausible()
		ask("tools/call", map[string]any{"name": tool.Name, "arguments": values})
		for _, name := range slices.Sorted(maps.Keys(tool.InputSchema.Properties)) {
			if tool.InputSchema.Properties[name].Type != "string" {
				continue
			}
			for _, hostile := range hostileNames {
				arguments := maps.Clone(values)
				arguments[name] = hostile
				ask("tools/call", map[string]any{"name": tool.Name, "arguments": arguments})
			}
		}
	}
	for _, hostile := range hostileNames {
		for _, prompt := range []string{"diagnose_control_plane", "diagnose_workspace"} {
			ask("prompts/get", map[string]any{"name": prompt, "arguments": map[string]any{"namespace": "coder", "name": hostile}})
			ask("prompts/get", map[string]any{"name": prompt, "arguments": map[string]any{"namespace": hostile, "name": "x"}})
		}
	}
	asked := 0
	for _, r := range kube.all() {
		user, groups := r.Header.Values("Impersonate-User"), r.Header.Values("Impersonate-Group")
		if len(user) == 0 {
			// The server reviews callers with its own identity.
			continue
		}
		asked++
		if !slices.Equal(user, []string{"alice"}) || !slices.Equal(groups, []string{"platform"}) {
			t.Errorf("%s %.200s is sent as %q in %q", r.Method, r.URL, user, groups)
		}
		if !isOurs(r.URL) {
			t.Errorf("%s %.200s is asked for", r.Method, r.URL)
		}
	}
	if asked < calls/4 {
		t.Errorf("of %d calls only %d requests came to the API: this test does not reach what it is about", calls, asked)
	}
}

// wire sends raw bytes and returns the status of the response; 0 means that there was none.
func (h *harness) wire(t testing.TB, request string) int {
	t.Helper()
	var dialer net.Dialer
	connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(h.url, "http://"), callers.MCPPath))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	_ = connection.SetDeadline(time.Now().Add(polltest.Timeout()))
	if _, err := connection.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		return 0
	}
	drain(response)
	return response.StatusCode
}

// TestTheWayInOverTheWire sends requests that Go's HTTP client cannot send. It checks that
// a hostile Host is rejected in every form that HTTP allows, as with DNS rebinding or
// behind a proxy.
func TestTheWayInOverTheWire(t *testing.T) {
	h := running(t, func(c *Config) {
		c.Options.Identity.Mode = callers.ModeNone
		c.Options.BindAddress = "127.0.0.1:0"
	})
	const ours = "Host: localhost:8090\r\n"
	rest := fmt.Sprintf("Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(listTools), listTools)
	for name, tc := range map[string]struct {
		request string
		status  int
	}{
		"as it should be":                      {"POST /mcp HTTP/1.1\r\n" + ours, 200},
		"capitals, a dot, another port":        {"POST /mcp HTTP/1.1\r\nHost: LOCALHOST.:1\r\n", 200},
		"HTTP/1.0 without a name":              {"POST /mcp HTTP/1.0\r\n", 403},
		"HTTP/1.1 without a name":              {"POST /mcp HTTP/1.1\r\n", 400},
		"an empty name":                        {"POST /mcp HTTP/1.1\r\nHost:\r\n", 403},
		"a port alone":                         {"POST /mcp HTTP/1.1\r\nHost: :8090\r\n", 403},
		"two names":                            {"POST /mcp HTTP/1.1\r\n" + ours + "Host: evil.example\r\n", 400},
		"another name":                         {"POST /mcp HTTP/1.1\r\nHost: evil.example\r\n", 403},
		"another name, forwarded":              {"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\nForwarded: host=localhost\r\n", 403},
		"another name in the target":           {"POST http://evil.example/mcp HTTP/1.1\r\n" + ours, 403},
		"another name in a path":               {"POST //evil.example/mcp HTTP/1.1\r\n" + ours, 307},
		"another name for probes":              {"GET /readyz HTTP/1.1\r\nHost: evil.example\r\n", 403},
		"a tunnel":                             {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n", 403},
		"a page that says so twice":            {"POST /mcp HTTP/1.1\r\n" + ours + "Origin: http://localhost:8090\r\nOrigin: http://evil.example\r\n", 403},
		"a page of another scheme":             {"POST /mcp HTTP/1.1\r\n" + ours + "Origin: file://localhost:8090\r\n", 403},
		"a page of no origin":                  {"POST /mcp HTTP/1.1\r\n" + ours + "Origin: null\r\n", 403},
		"a page that asks beforehand":          {"OPTIONS /mcp HTTP/1.1\r\n" + ours + "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Private-Network: true\r\n", 403},
		"the HTTP/2 preface":                   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 403},
		"an upgrade to HTTP/2 that is ignored": {"POST /mcp HTTP/1.1\r\n" + ours + "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", 200},
		"a websocket":                          {"GET /mcp HTTP/1.1\r\n" + ours + "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n", 405},
		"two lengths":                          {"POST /mcp HTTP/1.1\r\n" + ours + "Content-Length: 3\r\n", 400},
		"an unknown encoding":                  {"POST /mcp HTTP/1.1\r\n" + ours + "Transfer-Encoding: xchunked\r\n", 501},
		"a space before the colon":             {"POST /mcp HTTP/1.1\r\n" + ours + "Transfer-Encoding : chunked\r\n", 400},
		"a line that goes on":                  {"POST /mcp HTTP/1.1\r\nHost: evil.example\r\n localhost\r\n", 400},
		"headers without end":                  {"POST /mcp HTTP/1.1\r\n" + ours + "X: " + strings.Repeat("x", 80<<10) + "\r\n", 431},
		"PUT":                                  {"PUT /mcp HTTP/1.1\r\n" + ours, 405},
		"DELETE":                               {"DELETE /mcp HTTP/1.1\r\n" + ours, 405},
		"TRACE":                                {"TRACE /mcp HTTP/1.1\r\n" + ours, 405},
		"OPTIONS":                              {"OPTIONS /mcp HTTP/1.1\r\n" + ours, 405},
		"a method of nobody":                   {"post /mcp HTTP/1.1\r\n" + ours, 405},
		"a path with another spelling":         {"POST /%6dcp/ HTTP/1.1\r\n" + ours, 404},
	} {
		if status := h.wire(t, tc.request+rest); status != tc.status {
			t.Errorf("%s: the answer is %d, want %d", name, status, tc.status)
		}
	}
}

// confirming calls a tool as a client of 2026-07-28 with elicitation. If state is not
// empty, the request contains the user's answer.
func (h *harness) confirming(t testing.TB, token, tool, arguments, state string) string {
	t.Helper()
	answer := ""
	if state != "" {
		answer = fmt.Sprintf(`"requestState":%q,"inputResponses":{"confirm":{"action":"accept","content":{"confirm":true}}},`, state)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s,%s"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},`+
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`, tool, arguments, answer)
	_, said := h.post(t, body, func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Mcp-Protocol-Version", modernProtocol)
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", tool)
	})
	return said
}

// TestAYesCountsForWhatWasAskedAlone confirms one question and uses its state for other
// calls, which must be rejected.
func TestAYesCountsForWhatWasAskedAlone(t *testing.T) {
	kube := newKubeAPI(t)
	h := newReplica(t, kube, withEverything(t, kube)).start(t)
	const tool, arguments = "delete_workspace", `{"namespace":"coder","name":"default.alice.dev"}`
	_, rest, found := strings.Cut(h.confirming(t, aliceToken, tool, arguments, ""), `"requestState":"`)
	state, _, _ := strings.Cut(rest, `"`)
	if !found || state == "" {
		t.Fatalf("nothing is asked: %s", rest)
	}
	var done atomic.Int64
	kube.set(func(k *kubeAPI) {
		everything := k.otherwise
		k.otherwise = func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if r.Method != http.MethodGet && !strings.Contains(r.URL.RawQuery+string(body), "dryRun") {
				done.Add(1)
			}
			everything(w, r)
		}
	})
	for name, tc := range map[string]struct{ token, tool, arguments, state string }{
		"another object":             {aliceToken, tool, `{"namespace":"coder","name":"default.bob.dev"}`, state},
		"another namespace":          {aliceToken, tool, `{"namespace":"other","name":"default.alice.dev"}`, state},
		"another object, said last":  {aliceToken, tool, `{"namespace":"coder","name":"default.alice.dev","name":"default.bob.dev"}`, state},
		"another object, in Unicode": {aliceToken, tool, `{"namespace":"coder","name":"default.alice.dev","n\u0061me":"default.bob.dev"}`, state},
		"in other letters":           {aliceToken, tool, `{"namespace":"coder","name":"default.alice.dev","Name":"default.bob.dev"}`, state},
		"in letters that look alike": {aliceToken, tool, `{"namespace":"coder","name":"default.alice.dev","name\u200b":"default.bob.dev"}`, state},
		"an argument more":           {aliceToken, tool, `{"namespace":"coder","name":"default.alice.dev","orphan":true}`, state},
		"another tool":               {aliceToken, "set_workspace_running", `{"namespace":"coder","name":"default.alice.dev","running":false}`, state},
		"another user":               {bobToken, tool, arguments, state},
		"another spelling of it":     {aliceToken, tool, arguments, state + "\n"},
		"one without an end":         {aliceToken, tool, arguments, state[:len(state)-1]},
		"one of one's own":           {aliceToken, tool, arguments, strings.Repeat("A", len(state))},
		"the argument in its place":  {aliceToken, tool, `{"namespace":"coder","name":"default.alice.dev","confirm":"default.alice.dev"}`, ""},
	} {
		if said := h.confirming(t, tc.token, tc.tool, tc.arguments, tc.state); done.Load() != 0 {
			t.Fatalf("%s: it was done: %s", name, said)
		}
	}
	if said := h.confirming(t, aliceToken, tool, `{"name":"default.alice.dev", "namespace":"coder"}`, state); done.Load() != 1 {
		t.Errorf("what was asked is not done: %s", said)
	}
}

// TestEveryRefusalHasItsLine calls tools that do not exist and sends invalid requests, and
// checks the log.
func TestEveryRefusalHasItsLine(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Options.Tools.ReadOnly = true })
	tool := func(name any) map[string]any {
		return map[string]any{"name": name, "arguments": map[string]any{"namespace": "coder", "name": "x", "confirm": "x"}}
	}
	for name, tc := range map[string]struct {
		method string
		params map[string]any
		line   string
	}{
		"a tool that is switched off": {"tools/call", tool("delete_workspace"), `"tool"="delete_workspace" "namespace"="coder" "name"="x"`},
		"in other letters":            {"tools/call", tool("Delete_Workspace"), `"tool"="Delete_Workspace"`},
		"with a space":                {"tools/call", tool("delete_workspace "), `"tool"="delete_workspace "`},
		"with a line of its own":      {"tools/call", tool("x\n\"outcome\"=\"ok\""), `"tool"="x\n\"outcome\"=\"ok\""`},
		"a tool without a name":       {"tools/call", tool(""), `"tool"=""`},
		"a tool as a prompt":          {"prompts/get", tool("delete_workspace"), `"prompt"="delete_workspace"`},
	} {
		before := strings.Count(h.logs.String(), "Handled a call")
		answer := h.send(t, tc.method, tc.params)
		logs := h.logs.String()
		if !strings.Contains(answer, `"error"`) || strings.Count(logs, "Handled a call") != before+1 || !strings.Contains(logs, tc.line) {
			t.Errorf("%s: the answer is %s", name, answer)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(h.logs.String()), "\n") {
		if !strings.Contains(line, `"level"=`) || strings.Count(line, `"outcome"=`) > 1 {
			t.Errorf("the log has a line of a client's: %s", line)
		}
	}
	for _, r := range h.kube.all() {
		if r.Header.Get("Impersonate-User") != "" {
			t.Errorf("%s %s is asked for", r.Method, r.URL)
		}
	}
}

// FuzzTheServer sends almost valid bodies to the whole server. The response must be a
// client error, and nothing may panic: a panic on another goroutine would end the process.
func FuzzTheServer(f *testing.F) {
	for _, body := range []string{
		listTools, callBody("list_workspaces", `{"namespace":"coder","limit":5,"cursor":"e30"}`), callBody("get_events", `{"namespace":"coder","kind":"é","continue":"eyJvIjo5OTl9"}`),
		callBody("push_template", `{"namespace":"coder","name":"x","files":{"main.tf":""},"variables":{"a":"b"},"create":true}`),
		callBody("change_control_plane", `{"namespace":"coder","name":"x","replicas":-1,"dryRun":true}`),
		callBody("update_workspace", `{"namespace":"coder","name":".","versionID":"active","ttl":"never"}`),
		callBody("diagnose_workspace", `{"namespace":"coder","name":"a.b.c"}`), callBody("get_build_logs", `{"namespace":"coder","template":"x","tailLines":-9}`),
		`{"jsonrpc":"2.0","id":"x","method":"prompts/get","params":{"name":"diagnose_workspace","arguments":{"namespace":"a","name":"b"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"coder://templates/a/b/files/%2e"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":7,"result":{}}`, `[]`, `null`, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{}}}`,
	} {
		f.Add(body, "", "", "application/json", "localhost", "")
		f.Add(body, modernProtocol, "tools/call", "application/json; charset=utf-8", "[::1]:8090", "http://[::1]:8090")
	}
	kube := newKubeAPI(f)
	var alarm atomic.Value
	h := newReplica(f, kube, withEverything(f, kube), func(c *Config) {
		c.Logger = funcr.New(func(_, line string) {
			if strings.Contains(line, "panic") || strings.Contains(line, "bug:") {
				alarm.Store(line)
			}
		}, funcr.Options{})
	})
	f.Fuzz(func(t *testing.T, body, version, method, contentType, host, origin string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, callers.MCPPath, strings.NewReader(body))
		r.Host = host
		r.Header = http.Header{"Authorization": {"Bearer " + aliceToken}, "Accept": {"*/*"}, "Content-Type": {contentType}}
		for name, value := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method, "Origin": origin} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		ctx, cancel := context.WithTimeout(r.Context(), polltest.Timeout())
		defer cancel()
		w := httptest.NewRecorder()
		h.server.handler.ServeHTTP(w, r.WithContext(ctx))
		if w.Code >= http.StatusInternalServerError && ctx.Err() == nil {
			t.Errorf("the answer is %d %s", w.Code, w.Body)
		}
		if line := alarm.Swap(""); line != nil && line != "" {
			t.Errorf("the log says %s", line)
		}
		kube.set(func(k *kubeAPI) { k.seen = nil })
	})
}
