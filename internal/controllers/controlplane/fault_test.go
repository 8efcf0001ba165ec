package controlplane

import (
	"errors"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

var errDead = errors.New("the process is dead")

// fault strikes at the n-th write, be it to the cluster or to Coder. Without an
// error of its own it kills the process there: that write and everything after it
// fails. Where the answer is lost, the other side has done it all the same.
type fault struct {
	mu   sync.Mutex
	at   int
	lost bool
	with error
	seen int
	hit  bool
	off  bool
}

// set starts the count again. A fault at 0 never strikes. Without an error the
// process dies.
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

// without does what is not the controller's.
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

// transport is not http.DefaultTransport, whose idle connections a server of httptest
// closes when it ends. A test that runs beside would lose an answer without a body by
// that, such as the one to a deletion.
var transport = &http.Transport{}

// wire is the way to Coder. Reading there changes nothing, so the fault passes it by.
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

// kindList are the optional kinds of a cluster.
type kindList map[schema.GroupVersionKind]bool

// Has implements workload.KindSet.
func (k kindList) Has(kind schema.GroupVersionKind) bool { return k[kind] }
