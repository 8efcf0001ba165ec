package apiserver

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/syncstatus"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

const (
	group     = "/apis/aggregation.coder.com/v1alpha1/"
	mergeMIME = "application/merge-patch+json"
	jsonMIME  = "application/json"
)

// expected is the expected result of a request.
type expected struct {
	method, path, body string
	status             int
	// warned is true if the response must name the control plane in a Warning header.
	warned bool
}

// expect sends requests without retries.
func (f *fixture) expect(t *testing.T, state string, all map[string]expected) {
	t.Helper()
	for name, c := range all {
		header := map[string]string{"Content-Type": jsonMIME}
		if c.method == http.MethodPatch {
			header["Content-Type"] = mergeMIME
		}
		got := f.do(t, c.method, c.path, header, c.body)
		if got.status != c.status {
			t.Errorf("%s, %s: HTTP %d, want %d: %s", state, name, got.status, c.status, got.body)
		}
		if got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") == "" {
			t.Errorf("%s, %s: 503 without Retry-After", state, name)
		}
		if warned := strings.Contains(got.header.Get("Warning"), f.controlPlane().String()); warned != c.warned {
			t.Errorf("%s, %s: Warning %q", state, name, got.header.Get("Warning"))
		}
	}
}

// unanswered returns the requests whose results do not depend on the duration of the outage. The
// only object is coder.ada.dev.
func (f *fixture) unanswered(t *testing.T) map[string]expected {
	created := encode(t, workspaceObject("coder.ada.fresh", spec()))
	return map[string]expected{
		"list":                  {http.MethodGet, f.path("coderworkspaces"), "", http.StatusOK, true},
		"list everywhere":       {http.MethodGet, group + "coderworkspaces", "", http.StatusOK, true},
		"list any version":      {http.MethodGet, f.path("coderworkspaces?resourceVersion=0"), "", http.StatusOK, true},
		"templates":             {http.MethodGet, f.path("codertemplates"), "", http.StatusOK, true},
		"get":                   {http.MethodGet, f.path("coderworkspaces/coder.ada.dev"), "", http.StatusOK, true},
		"get an unknown name":   {http.MethodGet, f.path("coderworkspaces/coder.ada.none"), "", http.StatusServiceUnavailable, true},
		"create":                {http.MethodPost, f.path("coderworkspaces"), created, http.StatusServiceUnavailable, false},
		"create, dry run":       {http.MethodPost, f.path("coderworkspaces?dryRun=All"), created, http.StatusServiceUnavailable, false},
		"stop":                  {http.MethodPatch, f.path("coderworkspaces/coder.ada.dev"), `{"spec":{"running":false}}`, http.StatusServiceUnavailable, true},
		"delete what is none":   {http.MethodDelete, f.path("coderworkspaces/coder.ada.none"), "", http.StatusServiceUnavailable, true},
		"label":                 {http.MethodPatch, f.path("coderworkspaces/coder.ada.dev"), `{"metadata":{"labels":{"app":"x"}}}`, http.StatusOK, true},
		"another namespace":     {http.MethodGet, group + "namespaces/empty/coderworkspaces", "", http.StatusOK, false},
		"none in another one":   {http.MethodGet, group + "namespaces/empty/coderworkspaces/coder.ada.dev", "", http.StatusNotFound, false},
		"delete in another one": {http.MethodDelete, group + "namespaces/empty/coderworkspaces", "", http.StatusOK, false},
	}
}

// TestOutage makes Coder unreachable, and reachable again.
func TestOutage(t *testing.T) {
	for name, c := range map[string]struct {
		fault      coderdtest.Fault
		quarantine time.Duration
		state      syncstatus.State
	}{
		"a proxy that finds no Coder":   {coderdtest.Fault{Status: http.StatusBadGateway, HTML: true}, 0, syncstatus.Stale},
		"no connection":                 {coderdtest.Fault{DropConnection: true}, 0, syncstatus.Stale},
		"no connection, for long":       {coderdtest.Fault{DropConnection: true}, 500 * time.Millisecond, syncstatus.Quarantined},
		"a token that is taken no more": {coderdtest.Fault{Status: http.StatusUnauthorized}, 0, syncstatus.Quarantined},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, logged)
			if c.quarantine > 0 {
				s.timing.QuarantineAfter = c.quarantine
			}
			s.start(t)
			f := join(t, s)
			f.outage(t, c.fault, c.state)
		})
	}
}

func (f *fixture) outage(t *testing.T, fault coderdtest.Fault, state syncstatus.State) {
	id := f.addWorkspace(t, "dev")
	doomed := f.addWorkspace(t, "doomed")
	events := watching(t, f.ws(), metav1.ListOptions{FieldSelector: "metadata.name=coder.ada.dev"})
	if e := next(t, events, nil); e.Type != watch.Added {
		t.Fatal(reported(e))
	}
	restore := f.coder.Fail(fault)
	f.becomes(t, state)
	f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool {
		return condition(ws, "Synced") == "False CoderUnreachable"
	})
	f.coder.ResetRequests()
	f.expect(t, string(state), f.unanswered(t))
	f.expect(t, string(state), map[string]expected{
		"delete": {http.MethodDelete, f.path("coderworkspaces/coder.ada.doomed"), "", http.StatusOK, true},
	})
	ws := f.workspace(t, "coder.ada.doomed", func(ws *unstructured.Unstructured) bool { return ws.GetDeletionTimestamp() != nil })
	if idIn(ws) != doomed.String() {
		t.Errorf("another one is deleted: %v", ws.Object)
	}
	restore()
	f.becomes(t, syncstatus.Ready)
	gone(t, f.ws(), "coder.ada.doomed")
	back := f.workspace(t, "coder.ada.dev", func(ws *unstructured.Unstructured) bool { return condition(ws, "Synced") == "True Synced" })
	if back.GetLabels()["app"] != "x" || at(back, "spec", "running") != "true" {
		t.Errorf("after it is back: %v", back.Object)
	}
	if diff := cmp.Diff([]string{"start"}, f.coder.Transitions(id)); diff != "" {
		t.Errorf("builds of what was not touched (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"start", "delete"}, f.coder.Transitions(doomed)); diff != "" {
		t.Errorf("builds of what was deleted (-want +got):\n%s", diff)
	}
	// The events are unreachable, the label and reachable, each once, and no deletion.
	last := back.GetResourceVersion()
	for unreachable := 0; ; {
		e := next(t, events, nil)
		obj := e.Object.(*unstructured.Unstructured)
		if e.Type != watch.Modified {
			t.Errorf("the watch has %s", reported(e))
		}
		if condition(obj, "Synced") == "False CoderUnreachable" && obj.GetLabels()["app"] == "" {
			unreachable++
		}
		if obj.GetResourceVersion() >= last {
			if unreachable != 1 {
				t.Errorf("it was told %d times that Coder is away", unreachable)
			}
			return
		}
	}
}

// TestNeverRead covers a control plane without a connection, and one whose Coder never responds.
func TestNeverRead(t *testing.T) {
	f := newOwnFixture(t)
	f.addWorkspace(t, "dev")
	f.provider.unready("pending")
	pending := func(path string) string { return group + "namespaces/pending/" + path }
	polltest.Eventually(t, "the control plane is Syncing", func() error {
		if all, _ := f.server.storage.board.InNamespace("pending"); len(all) == 0 || all[0].State != syncstatus.Syncing {
			return fmt.Errorf("the board shows %v", all)
		}
		return nil
	})
	created := encode(t, workspaceObject("coder.ada.fresh", spec()))
	f.expect(t, "never read", map[string]expected{
		"list":              {http.MethodGet, pending("coderworkspaces"), "", http.StatusServiceUnavailable, false},
		"watch":             {http.MethodGet, pending("coderworkspaces?watch=true"), "", http.StatusServiceUnavailable, false},
		"get":               {http.MethodGet, pending("coderworkspaces/coder.ada.dev"), "", http.StatusServiceUnavailable, false},
		"templates":         {http.MethodGet, pending("codertemplates"), "", http.StatusServiceUnavailable, false},
		"list everywhere":   {http.MethodGet, group + "coderworkspaces", "", http.StatusServiceUnavailable, false},
		"watch everywhere":  {http.MethodGet, group + "coderworkspaces?watch=true", "", http.StatusServiceUnavailable, false},
		"create":            {http.MethodPost, pending("coderworkspaces"), created, http.StatusServiceUnavailable, false},
		"patch":             {http.MethodPatch, pending("coderworkspaces/coder.ada.dev"), `{}`, http.StatusServiceUnavailable, false},
		"delete":            {http.MethodDelete, pending("coderworkspaces/coder.ada.dev"), "", http.StatusServiceUnavailable, false},
		"delete all":        {http.MethodDelete, pending("coderworkspaces"), "", http.StatusServiceUnavailable, false},
		"the other one":     {http.MethodGet, f.path("coderworkspaces"), "", http.StatusOK, false},
		"a namespace of no": {http.MethodGet, group + "namespaces/empty/codertemplates", "", http.StatusOK, false},
	})
	f.provider.unready()
	polltest.Eventually(t, "the list is served", func() error {
		if got := f.do(t, http.MethodGet, group+"coderworkspaces", nil, ""); got.status != http.StatusOK {
			return errors.New(got.body)
		}
		return nil
	})
}

// TestControlPlaneThatIsTakenAway checks that the objects of a removed control plane are no longer
// served, and stay in Coder.
func TestControlPlaneThatIsTakenAway(t *testing.T) {
	f := newOwnFixture(t)
	id := f.addWorkspace(t, "dev")
	events := watching(t, f.ws(), metav1.ListOptions{})
	next(t, events, nil)
	f.coder.ResetRequests()
	f.provider.remove(f.namespace)
	next(t, events, func(e watch.Event) bool { return reported(e) == "DELETED coder.ada.dev" })
	f.expect(t, "taken away", map[string]expected{
		"list":            {http.MethodGet, f.path("coderworkspaces"), "", http.StatusOK, false},
		"list everywhere": {http.MethodGet, group + "coderworkspaces", "", http.StatusOK, false},
		"get":             {http.MethodGet, f.path("coderworkspaces/coder.ada.dev"), "", http.StatusNotFound, false},
		"patch":           {http.MethodPatch, f.path("coderworkspaces/coder.ada.dev"), `{}`, http.StatusNotFound, false},
		"delete":          {http.MethodDelete, f.path("coderworkspaces/coder.ada.dev"), "", http.StatusNotFound, false},
		"create": {http.MethodPost, f.path("coderworkspaces"), encode(t, workspaceObject("coder.ada.fresh", spec())),
			http.StatusUnprocessableEntity, false},
	})
	if diff := cmp.Diff([]string{"start"}, f.coder.Transitions(id)); diff != "" || f.coder.Writes() != 0 {
		t.Errorf("it was touched: %v (-want +got):\n%s", f.coder.Requests(), diff)
	}
}

// TestBeforeTheRecordsAreRead covers a replica that cannot read the records. It returns empty lists
// for a namespace without a control plane, and 503 otherwise.
func TestBeforeTheRecordsAreRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, logged)
	s.workspaces.Away(errors.New("no records today"))
	s.provider.unready("pending")
	connect := s.run(t)
	polltest.Eventually(t, "the server serves", func() error {
		if !s.server.serving.Load() {
			return errors.New("it does not serve yet")
		}
		return nil
	})
	connect()
	if err := s.server.Ready(nil); err == nil {
		t.Error("it is ready")
	}
	f := &fixture{site: s, namespace: "pending"}
	empty := group + "namespaces/empty/"
	created := encode(t, workspaceObject("coder.ada.fresh", spec()))
	f.expect(t, "before the records are read", map[string]expected{
		"list of no":      {http.MethodGet, empty + "coderworkspaces", "", http.StatusOK, false},
		"templates of no": {http.MethodGet, empty + "codertemplates", "", http.StatusOK, false},
		"get of no":       {http.MethodGet, empty + "coderworkspaces/coder.ada.dev", "", http.StatusNotFound, false},
		"patch of no":     {http.MethodPatch, empty + "coderworkspaces/coder.ada.dev", `{}`, http.StatusNotFound, false},
		"delete of no":    {http.MethodDelete, empty + "coderworkspaces/coder.ada.dev", "", http.StatusNotFound, false},
		"delete all":      {http.MethodDelete, empty + "coderworkspaces", "", http.StatusOK, false},
		"list":            {http.MethodGet, f.path("coderworkspaces"), "", http.StatusServiceUnavailable, false},
		"watch":           {http.MethodGet, f.path("coderworkspaces?watch=true"), "", http.StatusServiceUnavailable, false},
		"get":             {http.MethodGet, f.path("coderworkspaces/coder.ada.dev"), "", http.StatusServiceUnavailable, false},
		"create":          {http.MethodPost, f.path("coderworkspaces"), created, http.StatusServiceUnavailable, false},
		"delete":          {http.MethodDelete, f.path("coderworkspaces/coder.ada.dev"), "", http.StatusServiceUnavailable, false},
		"list everywhere": {http.MethodGet, group + "coderworkspaces", "", http.StatusServiceUnavailable, false},
		"discovery":       {http.MethodGet, strings.TrimSuffix(group, "/"), "", http.StatusOK, false},
	})
}
