package mcpserver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/mcptest"
)

// service distributes requests to the replicas in turn.
func service(t *testing.T, replicas ...*harness) string {
	t.Helper()
	var proxies []http.Handler
	transport := &http.Transport{}
	for _, replica := range replicas {
		target, err := url.Parse(strings.TrimSuffix(replica.url, callers.MCPPath))
		if err != nil {
			t.Fatal(err)
		}
		proxies = append(proxies, mcptest.ProxyHandler(&httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: transport,
		}))
	}
	var turn atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxies[turn.Add(1)%int64(len(proxies))].ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL + callers.MCPPath
}

func (h *harness) calls(tool string) int {
	return strings.Count(h.logs.String(), `"tool"="`+tool+`"`)
}

func TestAnyReplicaAnswers(t *testing.T) {
	for _, protocol := range eras {
		t.Run(protocol, func(t *testing.T) {
			kube := newKubeAPI(t)
			kube.answer("GET "+workspacesPath, http.StatusOK, workspaceList(workspaceObject()))
			one, two := newReplica(t, kube).start(t), newReplica(t, kube).start(t)
			session := dial(t, service(t, one, two), protocol, aliceToken, nil)
			for range 10 {
				if result := session.Call(t, "list_workspaces", map[string]any{"namespace": "coder"}); result.IsError {
					t.Fatal(mcptest.Text(result))
				}
				if _, err := session.ListTools(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				// An odd number of requests per iteration, so that each kind of request
				// reaches both replicas.
				if _, err := session.ListPrompts(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			if a, b := one.calls("list_workspaces"), two.calls("list_workspaces"); a != 5 || b != 5 {
				t.Errorf("the replicas had %d and %d of the calls, want 5 each", a, b)
			}
		})
	}
}

// agreeing returns the options of a client whose user accepts every question.
func agreeing(asked *atomic.Int64) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked.Add(1)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
	}}
}

// countDeletions handles the DELETE requests for an object, and counts those that are not
// dry runs.
func countDeletions(kube *kubeAPI, object string) *atomic.Int64 {
	meant := &atomic.Int64{}
	kube.handle("DELETE "+object, func(w http.ResponseWriter, r *http.Request) {
		options := &metav1.DeleteOptions{}
		_ = json.NewDecoder(r.Body).Decode(options)
		if len(options.DryRun) == 0 {
			meant.Add(1)
		}
		writeJSON(w, http.StatusOK, workspaceObject())
	})
	return meant
}

func TestAConfirmationMayBeAnsweredOnAnotherReplica(t *testing.T) {
	kube := newKubeAPI(t)
	object := workspacesPath + "/default.alice.dev"
	kube.answer("GET "+object, http.StatusOK, workspaceObject())
	deletions := countDeletions(kube, object)
	one, two := newReplica(t, kube).start(t), newReplica(t, kube).start(t)
	var asked atomic.Int64
	session := dial(t, service(t, one, two), modernProtocol, aliceToken, agreeing(&asked))
	result := session.Call(t, "delete_workspace", map[string]any{"namespace": "coder", "name": "default.alice.dev"})
	if result.IsError || asked.Load() != 1 || deletions.Load() != 1 {
		t.Errorf("the user was asked %d times, and %d deletions came: %s", asked.Load(), deletions.Load(), mcptest.Text(result))
	}
	if a, b := one.calls("delete_workspace"), two.calls("delete_workspace"); a != 1 || b != 1 {
		t.Errorf("the replicas had %d and %d of the calls, want 1 each", a, b)
	}
}

// An answer is valid only with the token of the call that asked, also if another token is of the same user.
func TestAConfirmationWithAnotherTokenIsNone(t *testing.T) {
	kube := newKubeAPI(t)
	kube.set(func(k *kubeAPI) { k.users["another-token-of-alice"] = k.users[aliceToken] })
	object := workspacesPath + "/default.alice.dev"
	kube.answer("GET "+object, http.StatusOK, workspaceObject())
	deletions := countDeletions(kube, object)
	h := newReplica(t, kube).start(t)
	var session *mcptest.Client
	session = dial(t, h.url, modernProtocol, aliceToken, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			session.SetToken("another-token-of-alice")
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
		},
	})
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "delete_workspace", Arguments: map[string]any{"namespace": "coder", "name": "default.alice.dev"}})
	if err == nil || !strings.Contains(err.Error(), "call again without requestState") || deletions.Load() != 0 {
		t.Errorf("%v, error %v, and %d deletions came", result, err, deletions.Load())
	}
}

func TestAClientThatCannotAskConfirmsByName(t *testing.T) {
	for _, protocol := range eras {
		t.Run(protocol, func(t *testing.T) {
			kube := newKubeAPI(t)
			object := workspacesPath + "/default.alice.dev"
			kube.answer("GET "+object, http.StatusOK, workspaceObject())
			deletions := countDeletions(kube, object)
			session := dial(t, service(t, newReplica(t, kube).start(t), newReplica(t, kube).start(t)), protocol, aliceToken, nil)
			args := map[string]any{"namespace": "coder", "name": "default.alice.dev"}
			if result := session.Call(t, "delete_workspace", args); !result.IsError || deletions.Load() != 0 {
				t.Errorf("without a confirmation the answer is %s", mcptest.Text(result))
			}
			args["confirm"] = "default.alice.dev"
			if result := session.Call(t, "delete_workspace", args); result.IsError || deletions.Load() != 1 {
				t.Errorf("with a confirmation the answer is %s", mcptest.Text(result))
			}
		})
	}
}
