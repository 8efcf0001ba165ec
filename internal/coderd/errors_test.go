package coderd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
)

// kinds are the functions that classify an error.
var kinds = map[string]func(error) bool{
	"not found":    coderd.IsNotFound,
	"unauthorized": coderd.IsUnauthorized,
	"forbidden":    coderd.IsForbidden,
	"conflict":     coderd.IsConflict,
	"invalid":      coderd.IsInvalid,
	"rate limited": coderd.IsRateLimited,
	"unreachable":  coderd.IsUnreachable,

	"not supported": coderd.IsNotSupported,
}

func TestKindsOfErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  coderdtest.Fault
		kind   string
		status int
	}{
		{"bad request", coderdtest.Fault{Status: 400}, "invalid", 400},
		{"unprocessable", coderdtest.Fault{Status: 422}, "invalid", 422},
		{"unauthorized", coderdtest.Fault{Status: 401}, "unauthorized", 401},
		{"forbidden", coderdtest.Fault{Status: 403}, "forbidden", 403},
		{"not found", coderdtest.Fault{Status: 404}, "not found", 404},
		{"gone", coderdtest.Fault{Status: 410}, "not found", 410},
		{"conflict", coderdtest.Fault{Status: 409}, "conflict", 409},
		{"rate limit", coderdtest.Fault{Status: 429}, "rate limited", 429},
		{"rate limit of a proxy", coderdtest.Fault{Status: 429, HTML: true}, "rate limited", 429},
		{"internal error", coderdtest.Fault{Status: 500}, "unreachable", 500},
		{"bad gateway of a proxy", coderdtest.Fault{Status: 502, HTML: true}, "unreachable", 502},
		{"dropped", coderdtest.Fault{DropConnection: true}, "unreachable", 0},

		{"not found of a proxy", coderdtest.Fault{Status: 404, HTML: true}, "unreachable", 0},
		{"gone of a proxy", coderdtest.Fault{Status: 410, HTML: true}, "unreachable", 0},
		{"login page of a proxy", coderdtest.Fault{Status: 401, HTML: true}, "unreachable", 0},
		{"login page with status 200", coderdtest.Fault{Status: 200, HTML: true}, "unreachable", 0},
		{"an address that this version does not have", coderdtest.Fault{Status: 404, Message: "Route not found."}, "not supported", 501},
		{"not implemented by a proxy", coderdtest.Fault{Status: 501, HTML: true}, "unreachable", 501},
		{"another address of a proxy", coderdtest.Fault{Status: 404, Message: "Route not found.", HTML: true}, "unreachable", 0},
		{"no database", coderdtest.Fault{Status: 401, Message: "An internal error occurred. Please try again or contact the system administrator."}, "unreachable", 500},
		{"another status", coderdtest.Fault{Status: 418}, "", 418},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := coderdtest.New(t)
			client := newClient(t, server, server.AddUser("ada", "owner"))
			server.Fail(test.fault)
			_, readErr := client.Workspace(t.Context(), uuid.New())
			for what, err := range map[string]error{
				"reading":  readErr,
				"deleting": client.DeleteToken(t.Context(), "me", "aaaaaaaaaa"),
				"writing":  client.SetTTL(t.Context(), uuid.New(), nil),
				"setting":  client.SetActiveVersion(t.Context(), uuid.New(), uuid.New()),
				"leaving":  client.Logout(t.Context()),
			} {
				var e *coderd.Error
				if !errors.As(err, &e) {
					t.Fatalf("%s: %v is no *Error", what, err)
				}
				if e.StatusCode != test.status {
					t.Errorf("%s: status %d, want %d: %v", what, e.StatusCode, test.status, err)
				}
				for kind, is := range kinds {
					if is(fmt.Errorf("wrapped: %w", err)) != (kind == test.kind) {
						t.Errorf("%s: %v is %s: %t", what, err, kind, kind != test.kind)
					}
				}
			}
		})
	}
	for kind, is := range kinds {
		if is(nil) || is(errors.New("x")) {
			t.Errorf("an error of another package is %s", kind)
		}
	}
}

// Coder returns some refusals as internal errors. They must not be retried as outages.
func TestRefusalsThatCoderCallsInternalErrors(t *testing.T) {
	for _, test := range []struct {
		name, body string
		status     int
		want       func(error) bool
	}{
		{"a write that the database layer does not allow", `{"message":"An internal server error occurred.","detail":"unauthorized: rbac: forbidden"}`, 500, coderd.IsForbidden},
		{"a license that is there", `{"message":"Unable to add license to database","detail":"pq: duplicate key value violates unique constraint \"licenses_jwt_key\""}`, 500, coderd.IsConflict},
		{"any other", `{"message":"An internal server error occurred.","detail":"pq: the database system is shutting down"}`, 500, coderd.IsUnreachable},
		{"a feature without a license", `{"message":"Workspace Proxy is a Premium feature. Contact sales!"}`, 403, coderd.IsNotEntitled},
		{"and that is a refusal", `{"message":"Workspace Proxy is a Premium feature. Contact sales!"}`, 403, coderd.IsForbidden},
		{"a refusal for another reason", `{"message":"Forbidden."}`, 403, func(err error) bool { return coderd.IsForbidden(err) && !coderd.IsNotEntitled(err) }},
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.body))
		}))
		client, err := coderd.New(coderd.Config{URL: web.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.WorkspaceProxyByName(t.Context(), "falkenstein")
		web.Close()
		if !test.want(err) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// TestATokenControlsNoTerminal checks that the value of a token that Coder creates is plain text.
func TestATokenControlsNoTerminal(t *testing.T) {
	for key, says := range map[string]string{
		"aaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbb": "", "": "a token must consist of letters",
		"aaaaaaaaaa-\x1b]0;b": "a token must consist of letters", "aaaaaaaaaa-\u009b2J": "a token must consist of letters",
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusCreated)
			_ = json.NewEncoder(w).Encode(map[string]string{"key": key})
		}))
		client, err := coderd.New(coderd.Config{URL: web.URL})
		if err != nil {
			t.Fatal(err)
		}
		token, err := client.CreateToken(t.Context(), coderd.Me, coderd.TokenRequest{Name: "one"})
		web.Close()
		if (err == nil) != (says == "") || err == nil && token.Value != key || err != nil && (!strings.Contains(err.Error(), says) || token.Value != "") {
			t.Errorf("%q: token %q, %v", key, token.Value, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":     0,
		"7":    7 * time.Second,
		"-7":   0,
		"soon": 0,
		now.Add(time.Minute).Format(http.TimeFormat):  time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat): 0,
		// A wrong time must not stop the operator.
		"315360000":           10 * time.Minute,
		"9223372036854775807": 10 * time.Minute,
		now.AddDate(10, 0, 0).Format(http.TimeFormat): 10 * time.Minute,
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Date", now.Format(http.TimeFormat))
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"message": "Slow down."}`))
		}))
		client, err := coderd.New(coderd.Config{URL: web.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.WorkspacePage(t.Context(), 0, 1)
		web.Close()
		var e *coderd.Error
		if !errors.As(err, &e) || e.RetryAfter != want {
			t.Errorf("Retry-After %q: %+v, want %s", value, e, want)
		}
	}
}

func TestFieldsOfAnErrorAreKept(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	ttl := time.Second
	_, err := client.CreateWorkspace(t.Context(), "ada", coderd.NewWorkspace{
		Name: "dev", TemplateID: server.AddTemplate("coder", "small", nil), TTL: &ttl,
	})
	var e *coderd.Error
	if !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Field != "ttl_ms" {
		t.Fatalf("%+v", err)
	}
	const want = `creating workspace "dev" of "ada": Invalid Workspace Time to Shutdown; ` +
		`ttl_ms: time until shutdown must be at least one minute (HTTP 400)`
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestNoAnswerKeepsItsCause(t *testing.T) {
	server := coderdtest.New(t)
	token := server.AddUser("ada", "owner")
	server.Fail(coderdtest.Fault{Block: make(chan struct{})})

	slow, err := coderd.New(coderd.Config{URL: server.URL, Token: token, Timeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = slow.Me(t.Context())
	if !coderd.IsUnreachable(err) || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("own timeout: %v", err)
	}
	patient := newClient(t, server, token)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err = patient.Me(ctx); !errors.Is(err, context.DeadlineExceeded) || !coderd.IsUnreachable(err) {
		t.Errorf("the caller's timeout: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err = patient.Me(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("cancelled: %v", err)
	}
	nobody, err := coderd.New(coderd.Config{URL: "http://127.0.0.1:1", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = nobody.Me(t.Context()); !coderd.IsUnreachable(err) || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/login?next=s3cret", http.StatusTemporaryRedirect)
	}))
	defer web.Close()
	client, err := coderd.New(coderd.Config{URL: web.URL, Token: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"logout":       client.Logout(t.Context()),
		"delete token": client.DeleteToken(t.Context(), "me", "aaaaaaaaaa"),
	} {
		if !coderd.IsUnreachable(err) || !strings.Contains(err.Error(), "redirects to "+other.URL+",") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if asked.Load() != 0 {
		t.Error("the token went to another server")
	}
}

func TestTheOwnerOfARefusedTokenIsTold(t *testing.T) {
	server := coderdtest.New(t)
	token := server.AddUser("ada", "owner")
	told := 0
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: token, OnUnauthorized: func() { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() { _, _ = client.Me(t.Context()) }
	expectTold := func(want int, when string) {
		t.Helper()
		if told != want {
			t.Errorf("%s: told %d times, want %d", when, told, want)
		}
	}
	ask()
	_, _ = client.Login(t.Context(), "ada@example.com", "wrong")
	expectTold(0, "a good token and a wrong password")
	remove := server.Fail(coderdtest.Fault{Status: 401, HTML: true})
	ask()
	remove()
	remove = server.Fail(coderdtest.Fault{Status: 401, Message: "An internal error occurred. Please try again or contact the system administrator."})
	ask()
	remove()
	expectTold(0, "a proxy's login page, and no database")
	server.RevokeToken(token)
	ask()
	expectTold(1, "a revoked token")
}

// Coder also reports a missing user while its database becomes unavailable.
func TestAMissingUserIsConfirmed(t *testing.T) {
	server := coderdtest.New(t)
	client := newClient(t, server, server.AddUser("ada", "owner"))
	server.AddWorkspace("ada", server.AddTemplate("coder", "small", nil), "dev")
	unknown := coderdtest.Fault{Status: 400, Message: `"user" must be an existing uuid or username.`, Times: 1}
	server.Fail(unknown)
	server.Fail(coderdtest.Fault{Status: 500, Times: 1})
	if _, err := client.WorkspaceByName(t.Context(), "ada", "dev"); !coderd.IsUnreachable(err) {
		t.Errorf("%v, want unreachable", err)
	}
	server.Fail(unknown)
	if _, err := client.UserByName(t.Context(), "ada"); err != nil {
		t.Error(err)
	}
	if _, err := client.UserByName(t.Context(), "grace"); !coderd.IsNotFound(err) {
		t.Errorf("%v, want not found", err)
	}
}

// A server in front of Coder may repeat the request in its response.
func TestAnEchoIsNotPassedOn(t *testing.T) {
	license := coderdtest.NewLicense(coderdtest.License{})
	key, proxyToken := strings.Repeat("k", 43), uuid.NewString()+":"+strings.Repeat("s", 64)
	for _, status := range []int{http.StatusForbidden, http.StatusBadRequest, http.StatusInternalServerError} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			sent := license + " " + key + " " + proxyToken
			_, _ = fmt.Fprintf(w, `{"message":%[1]q,"detail":%[1]q,"validations":[{"field":"x","detail":%[1]q}]}`, sent)
		}))
		client, err := coderd.New(coderd.Config{URL: web.URL})
		if err != nil {
			t.Fatal(err)
		}
		_, licenseErr := client.AddLicense(t.Context(), license+"\n")
		_, keyErr := client.CheckProvisionerKey(t.Context(), key)
		for secret, err := range map[string]error{license: licenseErr, key: keyErr, proxyToken: client.CheckWorkspaceProxyToken(t.Context(), proxyToken)} {
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
				t.Errorf("HTTP %d: %v", status, err)
			}
		}
		web.Close()
	}
}

// TestNoErrorTellsASecret calls every method with every fault.
func TestNoErrorTellsASecret(t *testing.T) {
	server := coderdtest.New(t)
	token := server.AddUser("ada", "owner")
	client := newClient(t, server, token)
	ctx, id := t.Context(), uuid.New()
	const password = "Secret-Passw0rd!"
	license := coderdtest.NewLicense(coderdtest.License{})
	key, proxyToken := strings.Repeat("k", 43), id.String()+":"+strings.Repeat("s", 64)
	for _, fault := range []coderdtest.Fault{{DropConnection: true}, {Status: 500}, {Status: 401}, {Status: 404, HTML: true}, {Status: 400}} {
		remove := server.Fail(fault)
		errs := []error{
			client.CreateFirstUser(ctx, coderd.NewUser{Username: "ada", Email: "a@b", Password: password}),
			client.Logout(ctx),
			transit(ctx, client, id, coderd.TransitionStop),
		}
		_, err := client.Login(ctx, "ada@example.com", password)
		errs = append(errs, err)
		_, err = client.CreateUser(ctx, coderd.NewUser{Username: "bob", Email: "b@c", Password: password})
		errs = append(errs, err)
		_, err = client.CreateToken(ctx, "me", coderd.TokenRequest{Name: "n"})
		errs = append(errs, err)
		_, err = client.DownloadArchive(ctx, id)
		errs = append(errs, err)
		_, err = client.HasFirstUser(ctx)
		errs = append(errs, err)
		_, err = client.AddLicense(ctx, license)
		errs = append(errs, err)
		_, err = client.CheckProvisionerKey(ctx, key)
		errs = append(errs, err, client.CheckWorkspaceProxyToken(ctx, proxyToken))
		remove()
		for _, err := range errs {
			if err == nil {
				t.Errorf("%+v: no error", fault)
				continue
			}
			for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
				for _, secret := range []string{password, token, license, key, proxyToken} {
					if strings.Contains(text, secret) {
						t.Errorf("the error tells a secret: %s", text)
					}
				}
			}
		}
	}
}

// TestTheOwnerIsToldOfACoderThatDoesNotWork: only clients notice that Coder's database is
// unavailable, because Coder itself keeps running.
func TestTheOwnerIsToldOfACoderThatDoesNotWork(t *testing.T) {
	server := coderdtest.New(t)
	token := server.AddUser("ada", "owner")
	told := 0
	client, err := coderd.New(coderd.Config{URL: server.URL, Token: token, OnUnreachable: func() { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		fault coderdtest.Fault
		want  int
	}{
		{"no database", coderdtest.Fault{Status: 401, Message: "An internal error occurred. Please try again or contact the system administrator."}, 1},
		{"an internal error", coderdtest.Fault{Status: 500, Message: "An internal server error occurred."}, 1},
		{"a refused token", coderdtest.Fault{Status: 401}, 0},
		{"too many requests", coderdtest.Fault{Status: 429}, 0},
	} {
		told = 0
		remove := server.Fail(c.fault)
		_, err := client.Me(t.Context())
		remove()
		if told != c.want {
			t.Errorf("%s: told %d times, want %d: %v", c.name, told, c.want, err)
		}
	}
	told = 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Me(ctx); err == nil || told != 0 {
		t.Errorf("a caller who gave up: told %d times: %v", told, err)
	}
}
