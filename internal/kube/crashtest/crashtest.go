package crashtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// mostSteps is more than the number of steps of any test.
const mostSteps = 150

var errDead = errors.New("the process is dead")

// Fault simulates the end of the process at its n-th write or request: that one and everything
// after it fails. If lost is set, the server executes that write or request and only the response
// is lost. The zero value never fails.
type Fault struct {
	mu   sync.Mutex
	at   int
	lost bool
	seen int
	dead bool
}

// Set restarts the count. A fault at 0 never happens.
func (f *Fault) Set(at int, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.lost, f.seen, f.dead = at, lost, 0, false
}

// Struck reports whether the process has ended.
func (f *Fault) Struck() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// Steps returns the number of writes and requests since Set.
func (f *Fault) Steps() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// Around runs one write or request, unless the process has ended.
func (f *Fault) Around(do func() error) error {
	f.mu.Lock()
	f.seen++
	now, dead, lost := f.at > 0 && f.seen == f.at, f.dead, f.lost
	f.dead = f.dead || now
	f.mu.Unlock()
	if dead || (now && !lost) {
		return errDead
	}
	if err := do(); err != nil || !now {
		return err
	}
	return errDead
}

// RoundTrip implements http.RoundTripper.
func (f *Fault) RoundTrip(req *http.Request) (*http.Response, error) {
	var res *http.Response
	err := f.Around(func() error {
		var err error
		res, err = http.DefaultTransport.RoundTrip(req) //nolint:bodyclose // It is closed below, or by who gets it.
		return err
	})
	if err != nil && res != nil {
		_ = res.Body.Close()
		res = nil
	}
	return res, err
}

// Cluster returns interceptors for the fake client's builder. They count creations, updates and
// deletions, apply the fault to each, and set the uid of created objects like an API server.
func (f *Fault) Cluster(writes *int) interceptor.Funcs {
	uids := 0
	write := func(do func() error) error {
		*writes++
		return f.Around(do)
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return write(func() error {
				uids++
				if obj.GetUID() == "" {
					obj.SetUID(types.UID(fmt.Sprintf("uid-%d", uids)))
				}
				return c.Create(ctx, obj, opts...)
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return write(func() error { return c.Update(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, obj, opts...) })
		},
	}
}

// EachStep crashes at the first step, then at every Stride-th step, until crashAt reports that
// there was no such step. It fails if there are fewer steps than least, because the test then does
// not cover what it is meant to.
func EachStep(t *testing.T, least int, crashAt func(at int) bool) {
	t.Helper()
	at := 1
	for crashAt(at) {
		if at += Stride; at > mostSteps {
			t.Fatal("the steps do not end")
		}
	}
	if steps := at - 1; steps < least {
		t.Fatalf("only %d steps seen, and there are %d or more", steps, least)
	}
}
