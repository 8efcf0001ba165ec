package licensing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/kube/crashtest"
)

var begin = time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)

// world is the fixture: a Coder, a record, and a Manager.
type world struct {
	t       *testing.T
	coder   *coderdtest.Server
	clock   *clocktesting.FakePassiveClock
	manager *Manager
	fault   *crashtest.Fault
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
	said []string
}

func newWorld(t *testing.T, opts ...coderdtest.Option) *world {
	t.Helper()
	w := &world{t: t, fault: &crashtest.Fault{}, clock: clocktesting.NewFakePassiveClock(begin), instance: "v1"}
	w.coder = coderdtest.New(t, append([]coderdtest.Option{coderdtest.WithClock(w.clock)}, opts...)...)
	w.token = w.coder.AddUser("ada", "owner")
	w.restart()
	t.Cleanup(w.checkSilence)
	return w
}

func newLicensedWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, coderdtest.WithLicensing())
}

// restart replaces the Manager by one with empty caches, as after a restart of the process.
func (w *world) restart() { w.manager = &Manager{Clock: w.clock} }

func (w *world) request() Request {
	w.t.Helper()
	client, err := coderd.New(coderd.Config{URL: w.coder.URL, Token: w.token, Transport: w.fault})
	if err != nil {
		w.t.Fatal(err)
	}
	return Request{
		Key: "uid", Instance: w.instance, License: w.license, Unread: w.unread, Own: slices.Clone(w.own),
		Connect: func(context.Context) (Coder, error) { return client, w.connectErr },
		Record:  func(_ context.Context, own []string) error { return w.record(own) },
	}
}

func (w *world) record(own []string) error {
	return w.fault.Around(func() error {
		w.own = slices.Clone(own)
		w.records++
		return nil
	})
}

// try runs one pass and records its result as a status is written: only if it differs.
func (w *world) try() (Result, error) {
	w.t.Helper()
	result, err := w.manager.Ensure(w.t.Context(), w.request())
	w.said = append(w.said, result.Message, fmt.Sprint(err), fmt.Sprint(result.AllowanceErr))
	for _, e := range result.Events {
		w.said = append(w.said, e.Message)
	}
	if err == nil && !slices.Equal(w.own, result.Own) {
		err = w.record(result.Own)
	}
	return result, err
}

func (w *world) pass() Result {
	w.t.Helper()
	result, err := w.try()
	if err != nil {
		w.t.Fatalf("Ensure: %v", err)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > DefaultRest {
		w.t.Errorf("looks again after %s", result.RequeueAfter)
	}
	return result
}

// want sets the Secret and runs a pass that must end with this state.
func (w *world) want(license string, state State, reason string) Result {
	w.t.Helper()
	w.license = license
	result := w.pass()
	if result.State != state || result.Reason != reason {
		w.t.Fatalf("%q %q (%s), want %q %q", result.State, result.Reason, result.Message, state, reason)
	}
	return result
}

func (w *world) forward(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// asked returns the classes of the requests since the last call.
func (w *world) asked() string {
	var out []string
	for class, n := range w.coder.Requests() {
		class = strings.ReplaceAll(class, "/api/v2/", "")
		out = append(out, fmt.Sprintf("%d %s", n, class))
	}
	w.coder.ResetRequests()
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (w *world) wantAsked(want string) {
	w.t.Helper()
	if got := w.asked(); got != want {
		w.t.Errorf("asked %q, want %q", got, want)
	}
}

// wantHeld compares the licenses in Coder, and compares the record with the operator's licenses.
func (w *world) wantHeld(held, ours []string) {
	w.t.Helper()
	var texts, ids []string
	for _, l := range w.coder.Licenses() {
		texts = append(texts, l.Text)
	}
	for _, text := range ours {
		ids = append(ids, identityOf(w.t, text))
	}
	if diff := cmp.Diff(held, texts); diff != "" {
		w.t.Errorf("licenses (-want +got):\n%s", diff)
	}
	if !slices.Equal(ids, w.own) {
		w.t.Errorf("recorded %q, want %q", w.own, ids)
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
	for _, text := range append([]string{w.license}, texts(w.coder)...) {
		for _, part := range strings.Split(text, ".") {
			for _, said := range w.said {
				if len(part) > 8 && strings.Contains(said, part) || w.token != "" && strings.Contains(said, w.token) {
					w.t.Errorf("a secret is told: %s", said)
				}
			}
		}
	}
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

func reasons(r Result) string {
	var out []string
	for _, e := range r.Events {
		out = append(out, e.Reason)
	}
	return strings.Join(out, ",")
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
