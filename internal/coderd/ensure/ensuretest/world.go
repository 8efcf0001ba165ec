package ensuretest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply/applytest"
	"github.com/coder-k8s/coder-k8s/internal/kube/crashtest"
)

// Namespace is the namespace of all objects.
const Namespace = "team"

// World is a cluster, a Coder and a clock. A package adds its Manager and its object.
type World struct {
	T      *testing.T
	Ctx    context.Context
	Coder  *coderdtest.Server
	Client client.Client
	Clock  *clocktesting.FakePassiveClock
	// Fault is the crash of the process. It counts the requests of NewClient and the writes of
	// Client.
	Fault *crashtest.Fault
	// Writes is the number of writes to the cluster.
	Writes int
}

// New returns a World with an empty cluster of these kinds, and a Coder with the same clock. Without
// kinds there is no cluster.
func New(t *testing.T, kinds *applytest.Kinds, options ...coderdtest.Option) *World {
	t.Helper()
	w := &World{
		T: t, Ctx: t.Context(), Fault: &crashtest.Fault{},
		Clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)),
	}
	w.Coder = coderdtest.New(t, append([]coderdtest.Option{coderdtest.WithClock(w.Clock)}, options...)...)
	if kinds != nil {
		w.Client = kinds.Cluster(t).WithInterceptorFuncs(w.Fault.Cluster(&w.Writes)).Build()
	}
	return w
}

// Must fails the test if err is not nil.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Forward moves the clock.
func (w *World) Forward(d time.Duration) { w.Clock.SetTime(w.Clock.Now().Add(d)) }

// Asked returns the number of requests to Coder since the last call.
func (w *World) Asked() int {
	n := 0
	for _, count := range w.Coder.Requests() {
		n += count
	}
	w.Coder.ResetRequests()
	return n
}

// NewClient returns a client of the process that may crash.
func (w *World) NewClient(cfg coderd.Config) (*coderd.Client, error) {
	cfg.Transport = w.Fault
	return coderd.New(cfg)
}

// As returns a client that is not affected by the crash.
func (w *World) As(url, token string) *coderd.Client {
	w.T.Helper()
	c, err := coderd.New(coderd.Config{URL: url, Token: token})
	w.Must(err)
	return c
}

// Get reads an object, and reports whether it exists.
func (w *World) Get(name string, obj client.Object) bool {
	w.T.Helper()
	err := w.Client.Get(w.Ctx, client.ObjectKey{Namespace: Namespace, Name: name}, obj)
	if !apierrors.IsNotFound(err) {
		w.Must(err)
	}
	return err == nil
}

// Secret reads a Secret that must exist.
func (w *World) Secret(name string) *corev1.Secret {
	w.T.Helper()
	secret := &corev1.Secret{}
	if !w.Get(name, secret) {
		w.T.Fatalf("Secret %q does not exist", name)
	}
	return secret
}

// HasSecret reports whether a Secret exists.
func (w *World) HasSecret(name string) bool {
	w.T.Helper()
	return w.Get(name, &corev1.Secret{})
}

// Create creates an object.
func (w *World) Create(obj client.Object) {
	w.T.Helper()
	w.Must(w.Client.Create(w.Ctx, obj))
}

// Update updates an object.
func (w *World) Update(obj client.Object) {
	w.T.Helper()
	w.Must(w.Client.Update(w.Ctx, obj))
}

// Delete deletes an object.
func (w *World) Delete(obj client.Object) {
	w.T.Helper()
	w.Must(w.Client.Delete(w.Ctx, obj))
}

// WantState fails the test if a pass did not end like this.
func (w *World) WantState(got ensure.Result, state ensure.State, reason string) {
	w.T.Helper()
	if got.State != state || got.Reason != reason {
		w.T.Fatalf("got %s %s (%s), want %s %s", got.State, got.Reason, got.Message, state, reason)
	}
}

// CheckSilence checks that none of the values is in a text of a pass.
func (w *World) CheckSilence(values map[string]bool, events ensure.Events, texts ...any) {
	w.T.Helper()
	said := fmt.Sprintln(texts...)
	for _, e := range events {
		said += " " + e.Message
	}
	for value := range values {
		if value != "" && strings.Contains(said, value) {
			w.T.Errorf("a secret is told: %s", said)
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
// receives it and once after. The function start prepares a scenario. Its results are the World, the
// passes of the process that crashes, and those of a new process with the checks at the end. There
// must be at least as many steps as least.
func Crash[S any](t *testing.T, least int, scenarios map[string]S, start func(*testing.T, S) (w *World, run, resume func())) {
	for name, s := range scenarios {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/answer lost=%t", name, lost), func(t *testing.T) {
				t.Parallel()
				crashtest.EachStep(t, least, func(at int) bool {
					w, run, resume := start(t, s)
					w.Fault.Set(at, lost)
					run()
					struck := w.Fault.Struck()
					w.Fault.Set(0, false)
					resume()
					if t.Failed() {
						t.Fatalf("after a crash at step %d", at)
					}
					return struck
				})
			})
		}
	}
}
