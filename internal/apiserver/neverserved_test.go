package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// newcomer returns a control plane that was never served.
func newcomer(namespace, name, prefix string, named bool) connections.Member {
	return connections.Member{
		ControlPlane: types.NamespacedName{Namespace: namespace, Name: name}, UID: types.UID(namespace + "/" + name),
		NamePrefix: prefix, Named: named, NeverServed: true, Reason: "the operator has no access to it yet",
	}
}

// shows waits until the board has n control planes in a namespace.
func (f *fixture) shows(t *testing.T, namespace string, n int) {
	t.Helper()
	polltest.Eventually(t, "the board has the control planes", func() error {
		if all, _ := f.server.storage.board.InNamespace(namespace); len(all) != n {
			return fmt.Errorf("the board shows %v", all)
		}
		return nil
	})
}

// expectOnly lists workspaces. The result must be exactly these, with a warning that names the
// control plane that is left out.
func (f *fixture) expectOnly(t *testing.T, path, leftOut string, want ...string) {
	t.Helper()
	got := f.do(t, http.MethodGet, path, nil, "")
	if got.status != http.StatusOK {
		t.Errorf("%s: HTTP %d: %s", path, got.status, got.body)
		return
	}
	for _, name := range want {
		if !strings.Contains(got.body, `"name":"`+name+`"`) {
			t.Errorf("%s: without %s: %s", path, name, got.body)
		}
	}
	if len(want) == 0 && !strings.Contains(got.body, `"items":[]`) {
		t.Errorf("%s: not empty: %s", path, got.body)
	}
	if warning := strings.Join(got.header.Values("Warning"), "\n"); strings.Contains(warning, "was not served yet") != (leftOut != "") || !strings.Contains(warning, leftOut) {
		t.Errorf("%s: Warning %q, want one that names %q", path, warning, leftOut)
	}
}

// TestNeverServed covers control planes that were never served next to a ready one: one in the same
// namespace, one there whose name prefix is not decided, and one in another namespace. They do not
// affect the ready one. When one of them becomes reachable, an open watch gets its objects.
func TestNeverServed(t *testing.T) {
	f := newOwnFixture(t)
	f.addWorkspace(t, "dev")
	f.provider.introduce(newcomer(f.namespace, "b", "b.", true), newcomer(f.namespace, "a", "", false), newcomer("second", "coder", "", true))
	f.shows(t, f.namespace, 3)
	f.shows(t, "second", 1)
	second := func(path string) string { return group + "namespaces/second/" + path }
	create := func(name string) string { return encode(t, workspaceObject(name, spec())) }

	f.expectOnly(t, group+"coderworkspaces", "second/coder", "coder.ada.dev")
	f.expectOnly(t, f.path("coderworkspaces"), f.namespace+"/b", "coder.ada.dev")
	f.expectOnly(t, second("coderworkspaces"), "second/coder")
	events := watching(t, f.workspacesIn(""), metav1.ListOptions{})
	if e := next(t, events, nil); reported(e) != "ADDED coder.ada.dev" {
		t.Error(reported(e))
	}
	f.expect(t, "never served", map[string]expected{
		"get beside it":          {http.MethodGet, f.path("coderworkspaces/coder.ada.dev"), "", http.StatusOK, false},
		"none beside it":         {http.MethodGet, f.path("coderworkspaces/coder.ada.none"), "", http.StatusNotFound, false},
		"create beside it":       {http.MethodPost, f.path("coderworkspaces"), create("coder.ada.fresh"), http.StatusCreated, false},
		"label beside it":        {http.MethodPatch, f.path("coderworkspaces/coder.ada.dev"), `{"metadata":{"labels":{"app":"x"}}}`, http.StatusOK, false},
		"get":                    {http.MethodGet, f.path("coderworkspaces/b.coder.ada.dev"), "", http.StatusServiceUnavailable, false},
		"create":                 {http.MethodPost, f.path("coderworkspaces"), create("b.coder.ada.fresh"), http.StatusServiceUnavailable, false},
		"patch":                  {http.MethodPatch, f.path("coderworkspaces/b.coder.ada.dev"), `{}`, http.StatusServiceUnavailable, false},
		"delete":                 {http.MethodDelete, f.path("coderworkspaces/b.coder.ada.dev"), "", http.StatusServiceUnavailable, false},
		"get in the unnamed one": {http.MethodGet, f.path("coderworkspaces/a.coder.ada.dev"), "", http.StatusServiceUnavailable, false},
		"get elsewhere":          {http.MethodGet, second("coderworkspaces/coder.ada.dev"), "", http.StatusServiceUnavailable, false},
		"create elsewhere":       {http.MethodPost, second("coderworkspaces"), create("coder.ada.fresh"), http.StatusServiceUnavailable, false},
		"delete all elsewhere":   {http.MethodDelete, second("coderworkspaces"), "", http.StatusOK, false},
		"templates elsewhere":    {http.MethodGet, second("codertemplates"), "", http.StatusOK, false},
	})
	got := f.do(t, http.MethodPost, second("coderworkspaces"), map[string]string{"Content-Type": jsonMIME}, create("coder.ada.fresh"))
	if !strings.Contains(got.body, "CoderControlPlane second/coder is not available") || !strings.Contains(got.body, "the operator has no access to it yet") {
		t.Errorf("a create does not say why it is refused: %s", got.body)
	}

	other := coderdtest.New(t)
	token := other.AddUser("operator", "owner")
	other.AddUser("ada", "member")
	other.AddWorkspace("ada", other.AddTemplate("coder", "starter", map[string]string{mainTF: "# one"}), "late")
	client, err := coderd.New(coderd.Config{URL: other.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	f.provider.introduce()
	f.provider.add(connections.Connection{ControlPlane: types.NamespacedName{Namespace: "second", Name: "coder"}, Client: client})
	next(t, events, func(e watch.Event) bool { return reported(e) == "ADDED coder.ada.late" })
}

// TestServedBeforeARestart makes Coder unreachable and restarts all replicas. Objects that were
// served before are served as they were last read, regardless of the status of the control plane.
func TestServedBeforeARestart(t *testing.T) {
	for name, neverServed := range map[string]bool{"the status says that it was served": false, "the status was lost": true} {
		t.Run(name, func(t *testing.T) {
			f := newOwnFixture(t)
			f.addWorkspace(t, "dev")
			f.remembered(t, syncstatus.Ready)
			f.stop()
			f.provider.remove(f.namespace)
			away := newcomer(f.namespace, "coder", "", true)
			away.NeverServed = neverServed
			// The states identify a control plane by its UID. The provider of these tests uses this
			// one.
			away.UID = types.UID(f.controlPlane().String())
			f.provider.introduce(away)
			f.restart(t)
			f.becomes(t, syncstatus.Stale)
			f.expect(t, "after a restart", f.unanswered(t))
		})
	}
}

// TestFirstReadThatEnds covers a Coder that stops responding during its first read. It is left out
// until then. Objects that were served once stay.
func TestFirstReadThatEnds(t *testing.T) {
	f := newOwnFixture(t)
	f.addWorkspace(t, "dev")
	known := newcomer("second", "coder", "", true)
	f.provider.introduce(known)
	f.shows(t, "second", 1)
	// The status changes as soon as the token is accepted, before anything was read.
	known.NeverServed, known.Reason = false, "no answer"
	f.provider.introduce(known)
	polltest.Eventually(t, "the board has the reason", func() error {
		if all, _ := f.server.storage.board.InNamespace("second"); len(all) != 1 || all[0].Message != "no answer" {
			return errors.New("not yet")
		}
		return nil
	})
	f.expectOnly(t, group+"coderworkspaces", "second/coder", "coder.ada.dev")
	if all, _ := f.server.storage.board.InNamespace("second"); all[0].State != syncstatus.Syncing {
		t.Errorf("it is %+v", all[0])
	}
}
