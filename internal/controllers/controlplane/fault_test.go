package controlplane

import (
	"errors"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errDead = errors.New("the process is dead")

// fault disturbs the n-th write to the cluster or to Coder. If it has no error of its own, it
// simulates the end of the process: that write and everything after it fails. If lost is set, the
// server executes the write and only the response is lost.
type fault struct {
	mu   sync.Mutex
	at   int
	lost bool
	with error
	seen int
	hit  bool
	off  bool
}

// set restarts the count. A fault at 0 never happens. Without an error the process ends.
func (f *fault) set(at int, lost bool, with error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.lost, f.with, f.seen, f.hit = at, lost, with, 0, false
}

func (f *fault) around(do func() error) error {
	f.mu.Lock()
	if f.off {
		f.mu.Unlock()
		return do()
	}
	f.seen++
	now, lost, err := f.at > 0 && f.seen == f.at, f.lost, f.with
	dead := f.hit && f.with == nil
	f.hit = f.hit || now
	f.mu.Unlock()
	if err == nil {
		err = errDead
	}
	switch {
	case dead, now && !lost:
		return err
	case now:
		_ = do()
		return err
	}
	return do()
}

func (f *fault) struck() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit
}

// without runs do without faults. It is for actions that are not the controller's.
func (f *fault) without(do func()) {
	f.switchOff(true)
	defer f.switchOff(false)
	do()
}

func (f *fault) switchOff(off bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off = off
}

// transport replaces http.DefaultTransport. A server of httptest closes the idle connections of
// http.DefaultTransport when it stops. A parallel test could lose a response without a body because
// of that, for example the response to a deletion.
var transport = &http.Transport{}

// wire is the transport to Coder. It does not disturb GET requests, because they change nothing.
type wire struct{ *fault }

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		return transport.RoundTrip(req)
	}
	var res *http.Response
	err := w.around(func() error {
		var err error
		res, err = transport.RoundTrip(req)
		return err
	})
	if err != nil && res != nil {
		_ = res.Body.Close()
		res = nil
	}
	return res, err
}

// kindList is the set of optional kinds of a cluster.
type kindList map[schema.GroupVersionKind]bool

// Has implements workload.KindSet.
func (k kindList) Has(kind schema.GroupVersionKind) bool { return k[kind] }
