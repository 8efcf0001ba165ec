package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

const workspacesPath = "/apis/aggregation.coder.com/v1alpha1/namespaces/coder/coderworkspaces"

var eras = []string{"2025-11-25", "2026-07-28"}

func workspaceObject(running bool, version string) *aggregationv1alpha1.CoderWorkspace {
	return &aggregationv1alpha1.CoderWorkspace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "aggregation.coder.com/v1alpha1", Kind: "CoderWorkspace"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "coder", Name: "default.alice.dev", ResourceVersion: version},
		Spec:       aggregationv1alpha1.CoderWorkspaceSpec{Running: ptr.To(running)},
	}
}

func workspaceList(items ...*aggregationv1alpha1.CoderWorkspace) *aggregationv1alpha1.CoderWorkspaceList {
	list := &aggregationv1alpha1.CoderWorkspaceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "aggregation.coder.com/v1alpha1", Kind: "CoderWorkspaceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
	}
	for _, item := range items {
		list.Items = append(list.Items, *item)
	}
	return list
}

func TestBothErasListAndCallTools(t *testing.T) {
	h := running(t)
	h.kube.answer("GET "+workspacesPath, http.StatusOK, workspaceList(workspaceObject(true, "1")))
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			session := h.connect(t, era, aliceToken)
			init := session.InitializeResult()
			if init.ProtocolVersion != era || init.ServerInfo.Version != "v1.2.3" || init.Instructions == "" {
				t.Errorf("the server says %+v, want version v1.2.3, protocol %s and instructions", init, era)
			}
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
			}
			if diff := cmp.Diff([]string{"list_control_planes", "list_workspaces", "set_workspace_running"}, names); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			result := call(t.Context(), t, session, "list_workspaces", map[string]any{"namespace": "coder"})
			if result.IsError || !strings.Contains(text(result), `"name":"default.alice.dev"`) {
				t.Errorf("the answer is %s", text(result))
			}
		})
	}
	if logs := h.logs.String(); strings.Contains(logs, aliceToken) || strings.Contains(logs, ownToken) {
		t.Error("a token is in the log")
	} else if !strings.Contains(logs, `"tool"="list_workspaces" "user"="alice" "outcome"="ok"`) {
		t.Errorf("the log does not say who called what:\n%s", logs)
	}
}

func TestCallsActAsTheCallerAndKeepTheToken(t *testing.T) {
	tests := map[string]struct {
		token, user string
		groups      []string
	}{
		"a user with groups":                     {aliceToken, "alice", []string{"platform"}},
		"a service account, whose groups follow": {robotToken, "system:serviceaccount:ns:robot", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := running(t)
			h.kube.answer("GET "+workspacesPath, http.StatusOK, workspaceList())
			session := h.connect(t, eras[1], tc.token)
			if result := call(t.Context(), t, session, "list_workspaces", map[string]any{"namespace": "coder"}); result.IsError {
				t.Fatal(text(result))
			}
			seen := h.kube.requests(workspacesPath)
			if len(seen) != 1 {
				t.Fatalf("the API server saw %d lists, want 1", len(seen))
			}
			header := seen[0].Header
			if got := header.Values("Impersonate-User"); !slices.Equal(got, []string{tc.user}) {
				t.Errorf("Impersonate-User is %q, want %q", got, tc.user)
			}
			if got := header.Values("Impersonate-Group"); !slices.Equal(got, tc.groups) {
				t.Errorf("Impersonate-Group is %q, want %q", got, tc.groups)
			}
			if header.Get("Impersonate-Uid") != "" || len(header.Values("Impersonate-Extra-K")) > 0 {
				t.Error("uid or extra were passed on, for which the server has no right")
			}
			if got := header.Get("Authorization"); got != "Bearer "+ownToken {
				t.Errorf("the API server got the wrong token: %q", got)
			}
		})
	}
}

func TestSetWorkspaceRunningLooksAgainAfterAConflict(t *testing.T) {
	h := running(t)
	object := workspacesPath + "/default.alice.dev"
	h.kube.answer("GET "+object, http.StatusOK, workspaceObject(true, "1"))
	var written []aggregationv1alpha1.CoderWorkspace
	h.kube.handle("PUT "+object, func(w http.ResponseWriter, r *http.Request) {
		var ws aggregationv1alpha1.CoderWorkspace
		if err := json.NewDecoder(r.Body).Decode(&ws); err != nil {
			t.Error(err)
		}
		written = append(written, ws)
		w.Header().Set("Content-Type", "application/json")
		if len(written) == 1 {
			h.kube.answer("GET "+object, http.StatusOK, workspaceObject(true, "2"))
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonConflict, Code: 409})
			return
		}
		_ = json.NewEncoder(w).Encode(ws)
	})
	session := h.connect(t, eras[0], aliceToken)
	args := map[string]any{"namespace": "coder", "name": "default.alice.dev", "running": false}
	result := call(t.Context(), t, session, "set_workspace_running", args)
	if result.IsError || !strings.Contains(text(result), `"updated":true`) || !strings.Contains(text(result), `"running":false`) {
		t.Errorf("the answer is %s", text(result))
	}
	if len(written) != 2 || written[1].ResourceVersion != "2" || *written[1].Spec.Running {
		t.Errorf("the API server got %+v, want a second write on version 2 with running false", written)
	}

	h.kube.answer("GET "+object, http.StatusOK, workspaceObject(false, "3"))
	result = call(t.Context(), t, session, "set_workspace_running", args)
	if result.IsError || !strings.Contains(text(result), `"updated":false`) || len(written) != 2 {
		t.Errorf("a workspace that is as wanted was written again: %s", text(result))
	}
}

func TestCancelledCallsReachTheAPIServer(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			h := running(t)
			entered, left := make(chan struct{}), make(chan struct{})
			h.kube.handle("GET "+workspacesPath, func(_ http.ResponseWriter, r *http.Request) {
				close(entered)
				<-r.Context().Done()
				close(left)
			})
			session := h.connect(t, era, aliceToken)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				_, _ = session.CallTool(ctx, &mcp.CallToolParams{Name: "list_workspaces", Arguments: map[string]any{"namespace": "coder"}})
			}()
			await(t, "the call reached the API server", entered)
			cancel()
			await(t, "the call of the API server was cancelled", left)
		})
	}
}

func TestEndsInTimeWithOpenCalls(t *testing.T) {
	h := newHarness(t)
	h.server.drain, h.server.stop = 20*time.Millisecond, testTimeout
	h.start(t)
	entered, left := make(chan struct{}), make(chan struct{})
	h.kube.handle("GET "+workspacesPath, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(left)
	})
	session := h.connect(t, eras[1], aliceToken)
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
}

func TestEndsInTimeWithAClientThatSendsForEver(t *testing.T) {
	h := newHarness(t)
	h.server.drain, h.server.stop = time.Millisecond, 50*time.Millisecond
	h.start(t)
	body, sent := newEndlessBody()
	defer body.Close()
	go func() {
		r, _ := http.NewRequest(http.MethodPost, h.url, body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+aliceToken)
		if response, err := http.DefaultClient.Do(r); err == nil {
			response.Body.Close()
		}
	}()
	await(t, "the client sends", sent)
	if err := h.stop(); err != nil {
		t.Errorf("Start returned %v, want nil", err)
	}
}

func TestReadyFollowsListenerAndAPIServer(t *testing.T) {
	h := newHarness(t)
	probe := func() error { return h.server.Ready(httptest.NewRequest(http.MethodGet, "/readyz", nil)) }
	if err := probe(); err == nil {
		t.Error("ready before it listens")
	}
	h.start(t)
	if err := probe(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	response, err := http.Get(strings.TrimSuffix(h.url, mcpPath) + "/readyz")
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("/readyz gives %v, %v", response, err)
	}
	h.kube.Close()
	h.server.probe.checked = time.Time{}
	if err := probe(); err == nil {
		t.Error("ready without an API server")
	}
}

func TestStartNamesTheAddressThatIsTaken(t *testing.T) {
	taken := newHarness(t)
	h := newHarness(t, func(c *Config) {
		c.Options.BindAddress = c.Listener.Addr().String()
		c.Listener = nil
	})
	h.server.options.BindAddress = taken.server.listener.Addr().String()
	err := h.server.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--mcp-bind-address "+h.server.options.BindAddress) {
		t.Errorf("Start returned %v, want an error that names the address", err)
	}
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(testTimeout):
		t.Fatalf("waited %s in vain until %s", testTimeout, what)
	}
}

// endlessBody sends one byte and then nothing more.
type endlessBody struct {
	first, closed chan struct{}
}

func newEndlessBody() (*endlessBody, <-chan struct{}) {
	b := &endlessBody{first: make(chan struct{}), closed: make(chan struct{})}
	return b, b.first
}

func (b *endlessBody) Read(p []byte) (int, error) {
	select {
	case <-b.first:
		<-b.closed
		return 0, context.Canceled
	default:
		close(b.first)
		p[0] = '{'
		return 1, nil
	}
}

func (b *endlessBody) Close() error {
	select {
	case <-b.closed:
	default:
		close(b.closed)
	}
	return nil
}
