package licensing

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure/ensuretest"
)

var begin = coderdtest.Now(time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC))

// fixture is a Coder, a record, and a Manager.
type fixture struct {
	*ensuretest.Fixture
	manager *Manager
	token   string
	// license and unread describe the Secret, own is the record.
	license  string
	unread   bool
	instance string
	own      []string
	records  int
	// connectErr is the error that Connect returns.
	connectErr error
	// said contains all texts that were ever reported.
	said []any
}

func newFixture(t *testing.T, opts ...coderdtest.Option) *fixture {
	t.Helper()
	f := &fixture{Fixture: ensuretest.New(t, nil, opts...), instance: "v1"}
	f.Clock.SetTime(begin)
	f.token = f.Coder.AddUser("ada", "owner")
	f.restart()
	t.Cleanup(f.checkSilence)
	return f
}

func newLicensedFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, coderdtest.WithLicensing())
}

// restart replaces the Manager by one with empty caches, as after a restart of the process.
func (f *fixture) restart() { f.manager = &Manager{Clock: f.Clock} }

func (f *fixture) request() Request {
	f.T.Helper()
	client, err := f.NewClient(coderd.Config{URL: f.Coder.URL, Token: f.token})
	f.Must(err)
	return Request{
		Key: "uid", Instance: f.instance, License: f.license, Unread: f.unread, Own: slices.Clone(f.own),
		Connect: func(context.Context) (*coderd.Client, error) { return client, f.connectErr },
		Record:  func(_ context.Context, own []string) error { return f.record(own) },
	}
}

func (f *fixture) record(own []string) error {
	return f.Fault.Around(func() error {
		f.own = slices.Clone(own)
		f.records++
		return nil
	})
}

// try runs one pass and records its result as a status is written: only if it differs.
func (f *fixture) try() (Result, error) {
	f.T.Helper()
	result, err := f.manager.Ensure(f.Ctx, f.request())
	f.said = append(f.said, result.Message, err, result.AllowanceErr)
	for _, e := range result.Events {
		f.said = append(f.said, e.Message)
	}
	if err == nil && !slices.Equal(f.own, result.Own) {
		err = f.record(result.Own)
	}
	return result, err
}

func (f *fixture) pass() Result {
	f.T.Helper()
	result, err := f.try()
	f.Must(err)
	if result.RequeueAfter <= 0 || result.RequeueAfter > DefaultRest {
		f.T.Errorf("looks again after %s", result.RequeueAfter)
	}
	return result
}

// want sets the Secret and runs a pass that must end with this state.
func (f *fixture) want(license string, state ensure.State, reason string) Result {
	f.T.Helper()
	f.license = license
	result := f.pass()
	f.WantState(result.Result, state, reason)
	return result
}

// asked returns the classes of the requests since the last call.
func (f *fixture) asked() string {
	var out []string
	for class, n := range f.Coder.Requests() {
		class = strings.ReplaceAll(class, "/api/v2/", "")
		out = append(out, fmt.Sprintf("%d %s", n, class))
	}
	f.Coder.ResetRequests()
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (f *fixture) wantAsked(want string) {
	f.T.Helper()
	if got := f.asked(); got != want {
		f.T.Errorf("asked %q, want %q", got, want)
	}
}

// wantHeld compares the licenses in Coder, and compares the record with the operator's licenses.
func (f *fixture) wantHeld(held, ours []string) {
	f.T.Helper()
	var texts, ids []string
	for _, l := range f.Coder.Licenses() {
		texts = append(texts, l.Text)
	}
	for _, text := range ours {
		ids = append(ids, identityOf(f.T, text))
	}
	if diff := cmp.Diff(held, texts); diff != "" {
		f.T.Errorf("licenses (-want +got):\n%s", diff)
	}
	if !slices.Equal(ids, f.own) {
		f.T.Errorf("recorded %q, want %q", f.own, ids)
	}
}

func identityOf(t testing.TB, text string) string {
	t.Helper()
	claims, err := coderd.ParseLicense(text)
	if err != nil {
		t.Fatal(err)
	}
	return identity(claims)
}

// checkSilence searches for parts of licenses in all reported texts.
func (f *fixture) checkSilence() {
	values := map[string]bool{f.token: true}
	for _, text := range append([]string{f.license}, texts(f.Coder)...) {
		for _, part := range strings.Split(text, ".") {
			values[part] = len(part) > 8
		}
	}
	maps.DeleteFunc(values, func(_ string, secret bool) bool { return !secret })
	f.CheckSilence(values, nil, f.said...)
}

func texts(coder *coderdtest.Server) []string {
	var out []string
	for _, l := range coder.Licenses() {
		out = append(out, l.Text)
	}
	return out
}

// license returns a license that is valid for some days after the start, plus ten days of grace
// period.
func license(days int) string {
	return coderdtest.NewLicense(coderdtest.License{
		FeatureSet: "premium", NotBefore: begin.AddDate(-1, 0, 0), Expires: begin.AddDate(0, 0, days), GraceEnds: begin.AddDate(0, 0, days+10),
	})
}

// noUUID returns a license in the old format, without a UUID.
func noUUID(expires time.Time) string {
	return coderdtest.NewLicense(coderdtest.License{UUID: uuid.Max, FeatureSet: "premium", Expires: expires})
}
