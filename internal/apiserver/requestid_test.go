package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

// TestAFailureIsFoundByItsRequestID checks that a failure has the same ID in every log: that of the
// request in kube-apiserver's audit log.
func TestAFailureIsFoundByItsRequestID(t *testing.T) {
	f := newFixture(t)
	remove := f.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users/", Status: http.StatusInternalServerError, Message: "The disk is full."})
	body := `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{"name":"coder.ada.full"},"spec":{"templateName":"starter"}}`
	got := f.do(t, http.MethodPost, f.path("coderworkspaces"), map[string]string{"Audit-ID": "from-kubectl-1", "Content-Type": "application/json"}, body)
	remove()
	sent := f.received(t, "from-kubectl-1")
	if got.status != http.StatusGatewayTimeout || got.header.Get("Retry-After") != "" || !strings.Contains(got.body, "The disk is full (HTTP 500) (request from-kubectl-1, in Coder "+sent.ID+")") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if agent := sent.Header.Get("User-Agent"); !strings.HasSuffix(agent, " request/from-kubectl-1") {
		t.Errorf("Coder logs the agent %q", agent)
	}
	for _, text := range []string{"A request to Coder failed", "A request failed"} {
		if !slices.ContainsFunc(f.journal.having(text), func(line string) bool { return strings.Contains(line, `"requestID"="from-kubectl-1"`) }) {
			t.Errorf("no line %q of the request: %q", text, f.journal.having(text))
		}
	}
}

// received returns the last write request to Coder with an ID.
func (f *fixture) received(t *testing.T, id string) coderdtest.Received {
	t.Helper()
	for _, r := range slices.Backward(f.coder.Received()) {
		if r.Header.Get("X-Request-Id") == id && r.Method != http.MethodGet {
			return r
		}
	}
	t.Fatalf("Coder got no write under the id %q", id)
	return coderdtest.Received{}
}

// TestARequestWithoutAnIDGetsOne checks that a request without an ID from kube-apiserver gets one,
// and that the response contains it.
func TestARequestWithoutAnIDGetsOne(t *testing.T) {
	f := newFixture(t)
	defer f.coder.Fail(coderdtest.Fault{Method: http.MethodPost, PathPrefix: "/api/v2/users/"})()
	body := `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{"name":"coder.ada.full"},"spec":{"templateName":"starter"}}`
	got := f.do(t, http.MethodPost, f.path("coderworkspaces"), map[string]string{"Content-Type": "application/json"}, body)
	if id := got.header.Get("Audit-ID"); id == "" || !strings.Contains(got.body, "(request "+id+", in Coder") {
		t.Errorf("id %q, %s", id, got.body)
	}
}

// TestOneTraceFromKubectlToCoder checks that one trace, started by the client, contains the spans
// of the registry and of Coder.
func TestOneTraceFromKubectlToCoder(t *testing.T) {
	t.Parallel()
	collector := tracingtest.New(t)
	s := newSite(t, logged)
	s.tracing = collector.Provider(t)
	s.start(t)
	f := join(t, s)
	const trace, secret = "4bf92f3577b34da6a3ce929d0e0e4736", "hunter2"
	header := map[string]string{
		"Traceparent": "00-" + trace + "-00f067aa0ba902b7-01", "Audit-ID": "traced", "Content-Type": "application/json",
	}
	body := `{"apiVersion":"aggregation.coder.com/v1alpha1","kind":"CoderWorkspace","metadata":{"name":"coder.ada.dev"},
		"spec":{"templateName":"starter"}}`
	if got := f.do(t, http.MethodPost, f.path("coderworkspaces?fieldManager="+secret), header, body); got.status != http.StatusCreated {
		t.Fatalf("%d %s", got.status, got.body)
	}
	const request = "POST /apis/aggregation.coder.com/v1alpha1/namespaces/{:namespace}/coderworkspaces"
	tree := collector.Trace(t, s.tracing, trace, request)
	if diff := cmp.Diff([]string{request, "Create", "Decide a write", "Coder POST /api/v2/users/{}/workspaces"}, tree.Path("Coder POST /api/v2/users")); diff != "" {
		t.Error(diff)
	}
	first, _ := tree.Find(request)
	asked, _ := tree.Find("Coder POST /api/v2/users")
	sent := f.received(t, "traced")
	if first.Parent != "00f067aa0ba902b7" || first.Attributes["audit-id"] != "traced" || asked.Attributes["coder.request_id"] != sent.ID {
		t.Errorf("%+v\n%+v", first, asked)
	}
	if want := "00-" + trace + "-" + asked.ID + "-01"; sent.Header.Get("Traceparent") != want {
		t.Errorf("Coder is sent the trace %q, want %q", sent.Header.Get("Traceparent"), want)
	}
	if all := collector.Spans(); len(tree) != len(all) {
		t.Errorf("the mirror and probes are traced: %v", all)
	} else if text := fmt.Sprint(all); strings.Contains(text, secret) || strings.Contains(text, testToken) {
		t.Errorf("a span tells a secret: %s", text)
	}
}
