package coderd_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

// observed records the calls of Config.Observe.
type observed struct {
	mu    sync.Mutex
	calls []coderd.Call
}

func (o *observed) observe(c coderd.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, c)
}

func (o *observed) take() []coderd.Call {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.calls
	o.calls = nil
	return taken
}

func TestEachRequestIsObservedByItsClass(t *testing.T) {
	server := coderdtest.New(t, coderdtest.WithLicensing())
	server.SetEntitlements(map[string]string{"external_provisioner_daemons": "entitled", "workspace_proxy": "entitled"})
	token := server.AddUser("templates", "owner")
	var seen observed
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: token, Observe: seen.observe})
	if err != nil {
		t.Fatal(err)
	}
	key := server.AddProvisionerKey("coder", "secretname", nil)
	proxy := server.AddProxy("secretname", "", "")
	id, org := uuid.New(), server.OrganizationID("coder")
	type call func(context.Context) error
	for _, test := range []struct {
		do     call
		method string
		class  string
		status int
	}{
		{func(ctx context.Context) error { _, err := client.BuildInfo(ctx); return err }, "GET", "/api/v2/buildinfo", 200},
		{func(ctx context.Context) error { _, err := client.HasFirstUser(ctx); return err }, "GET", "/api/v2/users/first", 200},
		{func(ctx context.Context) error {
			_, err := client.Login(ctx, "secretname@example.com", "secretname")
			return err
		}, "POST", "/api/v2/users/login", 401},
		{func(ctx context.Context) error { _, err := client.Me(ctx); return err }, "GET", "/api/v2/users/{}", 200},
		// A user has a name that is also a part of the API.
		{func(ctx context.Context) error { _, err := client.UserByName(ctx, "templates"); return err }, "GET", "/api/v2/users/{}", 200},
		{func(ctx context.Context) error { return client.SetRoles(ctx, "templates", nil) }, "PUT", "/api/v2/users/{}/roles", 400},
		{func(ctx context.Context) error { _, err := client.TokensOf(ctx, "me"); return err }, "GET", "/api/v2/users/{}/keys/tokens", 200},
		{func(ctx context.Context) error { _, err := client.MaxTokenLifetime(ctx, "me"); return err }, "GET", "/api/v2/users/{}/keys/tokens/tokenconfig", 200},
		{func(ctx context.Context) error { return client.DeleteToken(ctx, "me", "secretname") }, "DELETE", "/api/v2/users/{}/keys/{}", 404},
		{func(ctx context.Context) error { _, err := client.OrganizationByName(ctx, "workspaces"); return err }, "GET", "/api/v2/organizations/{}", 404},
		{func(ctx context.Context) error { _, err := client.TemplateByName(ctx, org, "versions"); return err }, "GET", "/api/v2/organizations/{}/templates/{}", 404},
		{func(ctx context.Context) error { _, err := client.Templates(ctx); return err }, "GET", "/api/v2/templates", 200},
		{func(ctx context.Context) error { return client.SetActiveVersion(ctx, id, id) }, "PATCH", "/api/v2/templates/{}/versions", 404},
		{func(ctx context.Context) error { _, err := client.TemplateVersion(ctx, id); return err }, "GET", "/api/v2/templateversions/{}", 404},
		{func(ctx context.Context) error { _, err := client.DownloadArchive(ctx, id); return err }, "GET", "/api/v2/files/{}", 404},
		{func(ctx context.Context) error { _, err := client.WorkspaceByName(ctx, "users", "builds"); return err }, "GET", "/api/v2/users/{}/workspace/{}", 404},
		{func(ctx context.Context) error { return client.SetTTL(ctx, id, nil) }, "PUT", "/api/v2/workspaces/{}/ttl", 404},
		{func(ctx context.Context) error { return transit(ctx, client, id, coderd.TransitionStop) }, "POST", "/api/v2/workspaces/{}/builds", 404},
		{func(ctx context.Context) error { return client.SetDormant(ctx, id, true) }, "PUT", "/api/v2/workspaces/{}/dormant", 404},
		{func(ctx context.Context) error { return client.SetAutomaticUpdates(ctx, id, "always") }, "PUT", "/api/v2/workspaces/{}/autoupdates", 404},
		{func(ctx context.Context) error { _, err := client.WorkspaceCount(ctx); return err }, "GET", "/api/v2/workspaces", 200},
		{func(ctx context.Context) error { _, err := client.BuildParameters(ctx, id); return err }, "GET", "/api/v2/workspacebuilds/{}/parameters", 404},
		{func(ctx context.Context) error { _, err := client.BuildLogs(ctx, id, 0, false); return err }, "GET", "/api/v2/workspacebuilds/{}/logs", 404},
		{func(ctx context.Context) error { _, err := client.VersionLogs(ctx, id, 0, false); return err }, "GET", "/api/v2/templateversions/{}/logs", 404},
		{func(ctx context.Context) error { _, err := client.VersionParameters(ctx, id); return err }, "GET", "/api/v2/templateversions/{}/rich-parameters", 404},
		{func(ctx context.Context) error { _, err := client.EvaluateParameters(ctx, id, id, nil); return err }, "POST", "/api/v2/templateversions/{}/dynamic-parameters/evaluate", 404},
		{func(ctx context.Context) error { _, err := client.VersionPresets(ctx, id); return err }, "GET", "/api/v2/templateversions/{}/presets", 404},
		{func(ctx context.Context) error { _, err := client.VersionVariables(ctx, id); return err }, "GET", "/api/v2/templateversions/{}/variables", 404},
		{func(ctx context.Context) error { return client.CancelVersion(ctx, id) }, "PATCH", "/api/v2/templateversions/{}/cancel", 404},
		{func(ctx context.Context) error { return client.ArchiveVersion(ctx, id) }, "POST", "/api/v2/templateversions/{}/archive", 404},
		{func(ctx context.Context) error { _, err := client.ActiveJobs(ctx, org); return err }, "GET", "/api/v2/organizations/{}/provisionerjobs", 200},
		{func(ctx context.Context) error { _, err := client.NewestJobs(ctx, org, 10); return err }, "GET", "/api/v2/organizations/{}/provisionerjobs", 200},
		{func(ctx context.Context) error { _, err := client.Entitlements(ctx); return err }, "GET", "/api/v2/entitlements", 200},
		{func(ctx context.Context) error { _, err := client.Licenses(ctx); return err }, "GET", "/api/v2/licenses", 200},
		{func(ctx context.Context) error { return client.DeleteLicense(ctx, 12345) }, "DELETE", "/api/v2/licenses/{}", 404},
		{func(ctx context.Context) error { _, err := client.ProvisionerKeys(ctx, org); return err }, "GET", "/api/v2/organizations/{}/provisionerkeys", 200},
		{func(ctx context.Context) error { return client.DeleteProvisionerKey(ctx, org, "members") }, "DELETE", "/api/v2/organizations/{}/provisionerkeys/{}", 404},
		{func(ctx context.Context) error { _, err := client.CheckProvisionerKey(ctx, key); return err }, "GET", "/api/v2/provisionerkeys/{}", 200},
		{func(ctx context.Context) error { _, err := client.ProvisionerDaemons(ctx, org); return err }, "GET", "/api/v2/organizations/{}/provisionerdaemons", 200},
		{func(ctx context.Context) error { _, err := client.WorkspaceProxyByName(ctx, "secretname"); return err }, "GET", "/api/v2/workspaceproxies/{}", 200},
		{func(ctx context.Context) error {
			_, _, err := client.UpdateWorkspaceProxy(ctx, proxy.ID, "secretname", "", "", false)
			return err
		}, "PATCH", "/api/v2/workspaceproxies/{}", 200},
		{func(ctx context.Context) error { return client.CheckWorkspaceProxyToken(ctx, proxy.Token) }, "GET", "/api/v2/workspaceproxies/{}/crypto-keys", 400},
		{func(ctx context.Context) error { return client.Logout(ctx) }, "POST", "/api/v2/users/logout", 200},
	} {
		_ = test.do(t.Context())
		calls := seen.take()
		if len(calls) == 0 {
			t.Errorf("%s %s: not observed", test.method, test.class)
		}
		// Some methods repeat a request before they return "not found".
		for _, got := range calls {
			want := coderd.Call{Method: test.method, Endpoint: test.class, Status: test.status, Duration: got.Duration}
			if test.class == "/api/v2/users/{}/workspace/{}" {
				want.Status = got.Status
			}
			if diff := cmp.Diff(want, got); diff != "" || got.Duration <= 0 {
				t.Errorf("%s %s (-want +got):\n%s", test.method, test.class, diff)
			}
			for _, secret := range []string{"secretname", id.String(), org.String(), proxy.ID.String(), key, token, "12345"} {
				if strings.Contains(got.Endpoint, secret) {
					t.Errorf("%s tells a name", got.Endpoint)
				}
			}
		}
	}
}

func TestARequestWithoutAnAnswerIsObserved(t *testing.T) {
	server := coderdtest.New(t)
	var seen observed
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: server.AddUser("ada"), Observe: seen.observe, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for what, fault := range map[string]coderdtest.Fault{"dropped": {DropConnection: true}, "late": {Block: make(chan struct{})}} {
		remove := server.Fail(fault)
		_, _ = client.WorkspacePage(t.Context(), 0, 1)
		remove()
		// Go's HTTP client repeats a read whose connection was dropped. The transport does not see
		// this.
		calls := seen.take()
		if len(calls) != 1 || calls[0].Status != 0 || calls[0].Endpoint != "/api/v2/workspaces" || calls[0].Method != http.MethodGet {
			t.Errorf("%s: %+v", what, calls)
		}
	}
}

// A key in a URL would be in the log of every proxy on the way.
func TestNoAddressHoldsAKey(t *testing.T) {
	server := coderdtest.New(t, coderdtest.WithLicensing())
	server.SetEntitlements(map[string]string{"workspace_proxy": "entitled"})
	key, proxy := server.AddProvisionerKey("coder", "key", nil), server.AddProxy("proxy", "", "")
	session := server.AddUser("ada", "owner")
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: session, Transport: seeing(func(r *http.Request) {
		for _, secret := range []string{key, proxy.Token, strings.Split(proxy.Token, ":")[1]} {
			if strings.Contains(r.URL.String(), secret) {
				t.Errorf("the address tells a secret: %s", r.URL.Path)
			}
		}
		if r.Header.Get("Coder-Session-Token") != "" {
			t.Errorf("%s is asked with a session token", r.URL.Path)
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.CheckProvisionerKey(t.Context(), key); err != nil || got.Name != "key" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := client.CheckWorkspaceProxyToken(t.Context(), proxy.Token); err != nil {
		t.Error(err)
	}
}

// Coder logs only the User-Agent header, so the request id is part of it. Proxies in front of Coder
// log the X-Request-Id header.
func TestTheRequestIDGoesToCoder(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	for id, want := range map[string][2]string{
		"":      {"coder-k8s", ""},
		"7-a_b": {"coder-k8s request/7-a_b", "7-a_b"},
		"a (b)": {"coder-k8s request/a__b_", "a__b_"},
	} {
		if _, err := client.Me(tracing.WithRequestID(t.Context(), id)); err != nil {
			t.Fatal(err)
		}
		all := server.Received()
		sent := all[len(all)-1].Header
		if diff := cmp.Diff(want, [2]string{sent.Get("User-Agent"), sent.Get("X-Request-Id")}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", id, diff)
		}
	}
}

// logging returns a context and the lines that are logged with it, up to the given level.
func logging(ctx context.Context, level int) (context.Context, *[]string) {
	lines := &[]string{}
	return log.IntoContext(ctx, funcr.New(func(_, args string) { *lines = append(*lines, args) }, funcr.Options{Verbosity: level})), lines
}

func TestWhatIsLoggedOfARequest(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	const failed, asked = "A request to Coder failed", "Sent a request to Coder"
	for _, tc := range []struct {
		name  string
		fault *coderdtest.Fault
		id    string
		level int
		want  string
	}{
		{"a success is for those who look for it", nil, "r", 0, ""},
		{"a success", nil, "r", 1, asked},
		{"a refusal is an answer", &coderdtest.Fault{Status: 403}, "r", 0, ""},
		{"a failure", &coderdtest.Fault{Status: 500}, "r", 0, failed},
		{"no answer", &coderdtest.Fault{DropConnection: true}, "r", 0, failed},
		{"a failure that nobody waits for", &coderdtest.Fault{Status: 500}, "", 0, ""},
		{"the same for those who look", &coderdtest.Fault{Status: 500}, "", 1, failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.fault != nil {
				defer server.Fail(*tc.fault)()
			}
			ctx, lines := logging(tracing.WithRequestID(t.Context(), tc.id), tc.level)
			_, err := client.Me(ctx)
			line := strings.Join(*lines, "\n")
			if (tc.want == "") != (line == "") || !strings.Contains(line, tc.want) {
				t.Fatalf("the log has %q, want %q", line, tc.want)
			}
			if line == "" || strings.Contains(line, `"status"=0`) {
				return
			}
			all := server.Received()
			for _, part := range []string{
				`"method"="GET"`, `"endpoint"="/api/v2/users/{}"`, `"coderRequestID"="` + all[len(all)-1].ID + `"`,
			} {
				if !strings.Contains(line, part) {
					t.Errorf("the line has no %s: %s", part, line)
				}
			}
			var fault *coderd.Error
			if errors.As(err, &fault) && fault.RequestID != all[len(all)-1].ID {
				t.Errorf("the error has the id %q", fault.RequestID)
			}
		})
	}
}

// The text of an error is written to conditions, so it must not change with each attempt.
func TestTheTextOfAnErrorHasNoID(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	defer server.Fail(coderdtest.Fault{Status: 500})()
	_, one := client.Me(tracing.WithRequestID(t.Context(), "one"))
	_, two := client.Me(tracing.WithRequestID(t.Context(), "two"))
	if one.Error() != two.Error() {
		t.Errorf("%q and %q", one, two)
	}
}

// A server in front of Coder cannot inject text into our log.
func TestOnlyCodersIDIsBelieved(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Coder-Request-Id", "see https://evil.example.com")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer web.Close()
	client, err := coderd.New(coderd.Config{URL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, lines := logging(tracing.WithRequestID(t.Context(), "r"), 1)
	_, err = client.Me(ctx)
	if all := fmt.Sprintf("%v %+v %#v", *lines, err, err); strings.Contains(all, "evil") {
		t.Error(all)
	}
}

// A key in a path must be only in the request, and not in a span or a log line.
func TestARequestIsASpan(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	collector := tracingtest.New(t)
	provider := collector.Provider(t)
	key := strings.Repeat("k", 43)
	if _, err := client.Me(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := server.Received()[0].Header.Get("Traceparent"); got != "" {
		t.Errorf("a request of no trace is sent as one of %s", got)
	}
	ctx, span := provider.Begin(t.Context(), "Reconcile")
	ctx, lines := logging(ctx, 1)
	if _, err := client.CheckProvisionerKey(ctx, key); err == nil {
		t.Error("the key is known")
	}
	span.End()
	tree := collector.Trace(t, provider, span.SpanContext().TraceID().String(), "Reconcile")
	if diff := cmp.Diff([]string{"Reconcile", "Coder GET /api/v2/provisionerkeys/{}"}, tree.Path("Coder")); diff != "" {
		t.Error(diff)
	}
	last := server.Received()[1]
	asked, _ := tree.Find("Coder")
	if want := "00-" + asked.Trace + "-" + asked.ID + "-01"; last.Header.Get("Traceparent") != want || asked.Attributes["coder.request_id"] != last.ID {
		t.Errorf("%v is sent for %+v", last.Header, asked)
	}
	if all := fmt.Sprint(collector.Spans(), *lines); strings.Contains(all, key) {
		t.Errorf("the key is told: %s", all)
	}
}
