package kubetest

import (
	"errors"
	"net/http"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mostSteps is more than the number of steps of any test.
const mostSteps = 150

var errDead = errors.New("the process is dead")

// Fault disturbs the n-th write or request of a process. The zero value never fails.
type Fault struct {
	mu   sync.Mutex
	at   int
	lost bool
	with error
	seen int
	hit  bool
	off  bool
}

// Set restarts the count and simulates the end of the process at one write or request: that one and
// everything after it fails. If lost is set, the server executes that write or request and only the
// response is lost. A fault at 0 never happens.
func (f *Fault) Set(at int, lost bool) { f.SetError(at, lost, nil) }

// SetError is Set for a process that continues: only one write or request fails, with the error.
func (f *Fault) SetError(at int, lost bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.lost, f.with, f.seen, f.hit = at, lost, err, 0, false
}

// Active reports whether a fault is set that has not happened yet, or after which the process
// continues.
func (f *Fault) Active() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at > 0
}

// Struck reports whether the fault has happened.
func (f *Fault) Struck() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit
}

// Dead reports whether the process has ended.
func (f *Fault) Dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit && f.with == nil
}

// Without runs do without faults. It is for actions that are not those of the process.
func (f *Fault) Without(do func()) {
	before := f.switchOff(true)
	defer f.switchOff(before)
	do()
}

func (f *Fault) switchOff(off bool) (before bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, f.off = f.off, off
	return before
}

// Steps returns the number of writes and requests since Set.
func (f *Fault) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// Around runs one write or request, unless the process has ended.
func (f *Fault) Around(do func() error) error { return f.around(nil, do) }

// AroundDeletion is Around for a deletion. The API server reports a conflict only if the deletion
// requires a resource version, or if the object is not the one that was meant.
func (f *Fault) AroundDeletion(do func() error, opts ...client.DeleteOption) error {
	options := client.DeleteOptions{}
	options.ApplyOptions(opts)
	if p := options.Preconditions; p != nil && p.ResourceVersion != nil {
		return f.Around(do)
	}
	return f.around(func(err error) error {
		if apierrors.IsConflict(err) {
			return nil
		}
		return err
	}, do)
}

// around runs one write or request. The error of the fault is what as returns for it, and nil
// means that this write or request does not fail.
func (f *Fault) around(as func(error) error, do func() error) error {
	f.mu.Lock()
	if f.off {
		f.mu.Unlock()
		return do()
	}
	f.seen++
	now, dead, lost, with := f.at > 0 && f.seen == f.at, f.hit && f.with == nil, f.lost, f.with
	f.hit = f.hit || now
	f.mu.Unlock()
	fails := errDead
	if with != nil {
		if fails = with; as != nil {
			fails = as(with)
		}
	}
	switch {
	case fails == nil, !dead && !now:
		return do()
	case dead, !lost:
		return fails
	}
	if err := do(); err != nil {
		return err
	}
	return fails
}

// Writes is a transport on which the fault disturbs only requests that change something.
func (f *Fault) Writes() http.RoundTripper { return writes{f} }

type writes struct{ fault *Fault }

// RoundTrip implements http.RoundTripper.
func (w writes) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		return transport.RoundTrip(req)
	}
	return w.fault.RoundTrip(req)
}

// transport replaces http.DefaultTransport. A server of httptest closes the idle connections of
// http.DefaultTransport when it stops. A parallel test could lose a response without a body because
// of that, for example the response to a deletion.
var transport = &http.Transport{}

// errConnection is the error of a request if the process continues. An error of the API server
// would have a meaning that no answer of another server has.
var errConnection = errors.New("connection reset by peer")

// RoundTrip implements http.RoundTripper.
func (f *Fault) RoundTrip(req *http.Request) (*http.Response, error) {
	var res *http.Response
	err := f.around(func(error) error { return errConnection }, func() error {
		var err error
		res, err = transport.RoundTrip(req) //nolint:bodyclose // It is closed below, or by who gets it.
		return err
	})
	if err != nil && res != nil {
		_ = res.Body.Close()
		res = nil
	}
	return res, err
}

// EachStep crashes at each step until crashAt reports that there was no such step. It fails if there
// are fewer steps than least, because the test then does not cover what it is meant to. With the
// race detector it skips the test; see SkipWithRace.
func EachStep(t *testing.T, least int, crashAt func(at int) bool) {
	t.Helper()
	SkipWithRace(t)
	at := 1
	for crashAt(at) {
		if at++; at > mostSteps {
			t.Fatal("the steps do not end")
		}
	}
	if steps := at - 1; steps < least {
		t.Fatalf("only %d steps seen, and there are %d or more", steps, least)
	}
}

// SkipWithRace skips a test in which one goroutine at a time processes many megabytes or objects, or
// tries hundreds of cases: the race detector makes it ten times slower, and has nothing to find.
// test/run.sh runs such tests without it.
func SkipWithRace(t testing.TB) {
	t.Helper()
	if RaceEnabled {
		t.Skip("test/run.sh runs this test without the race detector")
	}
}
