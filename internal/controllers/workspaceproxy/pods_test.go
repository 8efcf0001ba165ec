package workspaceproxy

import (
	"strings"
	"testing"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

func TestTheWordsOfAProxyThatCannotRegister(t *testing.T) {
	s := &scope{inputs: resources.WorkspaceProxyInputs{PrimaryAccessURL: accessURL}}
	for name, c := range map[string]struct{ words, reason, says string }{
		"away": {
			"2026-11-20 12:00:00.000 [info]  starting\nerror: create workspace proxy: register proxy: initial registration: register workspace proxy: " +
				"make request: Post \"https://coder.example.com/api/v2/workspaceproxies/me/register\": read tcp 10.0.0.7:43512->10.0.0.9:443: connection reset by peer",
			coderv1alpha1.ReasonUnreachable, "spec.primaryAccessURL",
		},
		"refused": {
			"error: create workspace proxy: register proxy: initial registration: register workspace proxy: " +
				"POST https://coder.example.com/api/v2/workspaceproxies/me/register: unexpected status code 401: Invalid external proxy token",
			coderv1alpha1.ReasonCoderRefused, "Invalid external proxy token",
		},
		"something else": {"error: listen tcp 0.0.0.0:3001: bind: address already in use", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.cannotRegister(c.words)
			if c.reason == "" {
				if got != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if got == nil || got.Reason != c.reason || !strings.Contains(got.Message, c.says) || strings.Contains(got.Message, "43512") {
				t.Errorf("got %+v, want %s", got, c.reason)
			}
		})
	}
}
