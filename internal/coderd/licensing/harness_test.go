package licensing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
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
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure/ensuretest"
)

var begin = time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)

// world is the fixture: a Coder, a record, and a Manager.
type world struct {
	*ensuretest.World
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

func newWorld(t *testing.T, opts ...coderdtest.Option) *world {
	t.Helper()
	w := &world{World: ensuretest.New(t, nil, opts...), instance: "v1"}
	w.Clock.SetTime(begin)
	w.token = w.Coder.AddUser("ada", "owner")
	w.restart()
	t.Cleanup(w.checkSilence)
	return w
}

func newLicensedWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, coderdtest.WithLicensing())
}

// restart replaces the Manager by one with empty caches, as after a restart of the process.
func (w *world) restart() { w.manager = &Manager{Clock: w.Clock} }

func (w *world) request() Request {
	w.T.Helper()
	client, err := w.NewClient(coderd.Config{URL: w.Coder.URL, Token: w.token})
	w.Must(err)
	return Request{
		Key: "uid", Instance: w.instance, License: w.license, Unread: w.unread, Own: slices.Clone(w.own),
		Connect: func(context.Context) (Coder, error) { return client, w.connectErr },
		Record:  func(_ context.Context, own []string) error { return w.record(own) },
	}
}

func (w *world) record(own []string) error {
	return w.Fault.Around(func() error {
		w.own = slices.Clone(own)
		w.records++
		return nil
	})
}

// try runs one pass and records its result as a status is written: only if it differs.
func (w *world) try() (Result, error) {
	w.T.Helper()
	result, err := w.manager.Ensure(w.Ctx, w.request())
	w.said = append(w.said, result.Message, err, result.AllowanceErr)
	for _, e := range result.Events {
		w.said = append(w.said, e.Message)
	}
	if err == nil && !slices.Equal(w.own, result.Own) {
		err = w.record(result.Own)
	}
	return result, err
}

func (w *world) pass() Result {
	w.T.Helper()
	result, err := w.try()
	w.Must(err)
	if result.RequeueAfter <= 0 || result.RequeueAfter > DefaultRest {
		w.T.Errorf("looks again after %s", result.RequeueAfter)
	}
	return result
}

// want sets the Secret and runs a pass that must end with this state.
func (w *world) want(license string, state State, reason string) Result {
	w.T.Helper()
	w.license = license
	result := w.pass()
	w.WantState(result.Result, state, reason)
	return result
}

// asked returns the classes of the requests since the last call.
func (w *world) asked() string {
	var out []string
	for class, n := range w.Coder.Requests() {
		class = strings.ReplaceAll(class, "/api/v2/", "")
		out = append(out, fmt.Sprintf("%d %s", n, class))
	}
	w.Coder.ResetRequests()
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (w *world) wantAsked(want string) {
	w.T.Helper()
	if got := w.asked(); got != want {
		w.T.Errorf("asked %q, want %q", got, want)
	}
}

// wantHeld compares the licenses in Coder, and compares the record with the operator's licenses.
func (w *world) wantHeld(held, ours []string) {
	w.T.Helper()
	var texts, ids []string
	for _, l := range w.Coder.Licenses() {
		texts = append(texts, l.Text)
	}
	for _, text := range ours {
		ids = append(ids, identityOf(w.T, text))
	}
	if diff := cmp.Diff(held, texts); diff != "" {
		w.T.Errorf("licenses (-want +got):\n%s", diff)
	}
	if !slices.Equal(ids, w.own) {
		w.T.Errorf("recorded %q, want %q", w.own, ids)
	}
}

func identityOf(t *testing.T, text string) string {
	t.Helper()
	claims, err := coderd.ParseLicense(text)
	if err != nil {
		t.Fatal(err)
	}
	return identity(claims)
}

// checkSilence searches for parts of licenses in all reported texts.
func (w *world) checkSilence() {
	values := map[string]bool{w.token: true}
	for _, text := range append([]string{w.license}, texts(w.Coder)...) {
		for _, part := range strings.Split(text, ".") {
			values[part] = len(part) > 8
		}
	}
	maps.DeleteFunc(values, func(_ string, secret bool) bool { return !secret })
	w.CheckSilence(values, nil, w.said...)
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

// late is a Coder to which a license is added between the list and the upload.
type late struct {
	Coder
	arrive func()
}

func (l *late) AddLicense(ctx context.Context, text string) (coderd.License, error) {
	l.arrive()
	return l.Coder.AddLicense(ctx, text)
}

// noUUID returns a license in the old format, without a UUID. The fake server signs with a SHA-256.
func noUUID(expires time.Time) string {
	text := coderdtest.NewLicense(coderdtest.License{UUID: uuid.Max, FeatureSet: "premium", Expires: expires})
	parts := strings.Split(text, ".")
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	payload = bytes.Replace(payload, []byte(uuid.Max.String()), []byte("7"), 1)
	unsigned := parts[0] + "." + base64.RawURLEncoding.EncodeToString(payload)
	sum := sha256.Sum256([]byte(unsigned))
	return unsigned + "." + base64.RawURLEncoding.EncodeToString(sum[:])
}
