package ensuretest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// Namespace is the namespace of all objects.
const Namespace = "team"

// Fixture is a cluster, a Coder and a clock. A package adds its Manager and its object.
type Fixture struct {
	// The Fault is the crash of the process. It counts the requests of NewClient and the writes to the
	// cluster.
	*kubetest.Fixture
	Ctx   context.Context //nolint:containedctx // It is that of the test.
	Coder *coderdtest.Server
}

// New returns a Fixture with an empty cluster of these kinds, and a Coder with the same clock. Without
// kinds there is no cluster.
func New(t *testing.T, kinds *kubetest.Kinds, options ...coderdtest.Option) *Fixture {
	t.Helper()
	f := &Fixture{Fixture: kubetest.NewFixture(t, Namespace, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), Ctx: t.Context()}
	f.Coder = coderdtest.New(t, append([]coderdtest.Option{coderdtest.WithClock(f.Clock)}, options...)...)
	if kinds != nil {
		f.Build(kinds.Cluster(t))
	}
	return f
}

// NewClient returns a client of the process that may crash.
func (f *Fixture) NewClient(cfg coderd.Config) (*coderd.Client, error) {
	cfg.Transport = f.Fault
	return coderd.New(cfg)
}

// Before returns a transport that calls do before the request with this number, which counts from 0.
func Before(number int, do func()) http.RoundTripper {
	return &before{number: number, do: do}
}

type before struct {
	number int
	do     func()
}

// RoundTrip implements http.RoundTripper. The requests of a pass are sent one after the other.
func (b *before) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.number == 0 {
		b.do()
	}
	b.number--
	return http.DefaultTransport.RoundTrip(req)
}

// As returns a client that is not affected by the crash.
func (f *Fixture) As(url, token string) *coderd.Client {
	f.T.Helper()
	c, err := coderd.New(coderd.Config{URL: url, Token: token})
	f.Must(err)
	return c
}

// Secret reads a Secret that must exist.
func (f *Fixture) Secret(name string) *corev1.Secret {
	f.T.Helper()
	secret := &corev1.Secret{}
	f.Get(name, secret)
	return secret
}

// HasSecret reports whether a Secret exists.
func (f *Fixture) HasSecret(name string) bool {
	f.T.Helper()
	return f.Has(name, &corev1.Secret{})
}

// WantState fails the test if a pass did not end like this.
func (f *Fixture) WantState(got ensure.Result, state ensure.State, reason string) {
	f.T.Helper()
	if got.State != state || got.Reason != reason {
		f.T.Fatalf("got %s %s (%s), want %s %s", got.State, got.Reason, got.Message, state, reason)
	}
}

// CheckSilence checks that none of the values is in a text of a pass.
func (f *Fixture) CheckSilence(values map[string]bool, events ensure.Events, texts ...any) {
	f.T.Helper()
	said := fmt.Sprintln(texts...)
	for _, e := range events {
		said += " " + e.Message
	}
	for value := range values {
		if value != "" && strings.Contains(said, value) {
			f.T.Errorf("a secret is exposed: %s", said)
		}
	}
}

// Reasons returns the reasons of Events.
func Reasons(events ensure.Events) string {
	var out []string
	for _, e := range events {
		out = append(out, e.Reason)
	}
	return strings.Join(out, ",")
}

// Crash kills the process at every single write and request of each scenario, once before the server
// receives it and once after. The function start prepares a scenario. Its results are the Fixture, the
// passes of the process that crashes, and those of a new process with the checks at the end. There
// must be at least as many steps as least.
func Crash[S any](t *testing.T, least int, scenarios map[string]S, start func(*testing.T, S) (f *Fixture, run, resume func())) {
	for name, s := range scenarios {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/answer lost=%t", name, lost), func(t *testing.T) {
				t.Parallel()
				kubetest.EachStep(t, least, func(at int) (struck bool) {
					// A test of its own, so that its server is free for the next one: with a real Coder a server costs seconds.
					passed := t.Run(fmt.Sprintf("step %d", at), func(t *testing.T) {
						f, run, resume := start(t, s)
						f.Fault.Set(at, lost)
						run()
						struck = f.Fault.Struck()
						f.Fault.Set(0, false)
						resume()
					})
					if !passed {
						t.FailNow()
					}
					return struck
				})
			})
		}
	}
}
