package coderd_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/requestid"
	"github.com/coder-k8s/coder-k8s/internal/tracing/tracingtest"
)

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
		if _, err := client.Me(requestid.Into(t.Context(), id)); err != nil {
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
	const failed, asked = "Coder did not do what it was asked for", "Asked Coder"
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
			ctx, lines := logging(requestid.Into(t.Context(), tc.id), tc.level)
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
	_, one := client.Me(requestid.Into(t.Context(), "one"))
	_, two := client.Me(requestid.Into(t.Context(), "two"))
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
	ctx, lines := logging(requestid.Into(t.Context(), "r"), 1)
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
