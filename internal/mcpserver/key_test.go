package mcpserver

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// A server on a user's machine must not create objects in the cluster.
func TestALocalServerAsksAndLeavesNoSecret(t *testing.T) {
	h := running(t, func(c *Config) {
		c.Options.Identity.Mode, c.Options.BindAddress = callers.ModeNone, "127.0.0.1:0"
	})
	object := workspacesPath + "/default.alice.dev"
	h.kube.answer("GET "+object, http.StatusOK, workspaceObject())
	h.kube.answer("DELETE "+object, http.StatusOK, workspaceObject())
	var asked atomic.Int64
	session := dial(t, h.url, modernEra, "", agreeing(&asked))
	result := call(t.Context(), t, session, "delete_workspace", map[string]any{"namespace": "coder", "name": "default.alice.dev"})
	if result.IsError || asked.Load() != 1 {
		t.Errorf("the user was asked %d times: %s", asked.Load(), text(result))
	}
	if n := len(h.kube.requests(http.MethodGet, secretsPath+"/coder-k8s-mcp")) + len(h.kube.requests(http.MethodPost, secretsPath)); n != 0 {
		t.Errorf("the cluster got %d requests about the Secret", n)
	}
}
