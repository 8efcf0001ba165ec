package integration

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// reader reads objects with consistent gets and lists.
type reader struct {
	*history
	// fixed is the replica that it stays at, also while that is paused. Nil chooses one
	// that runs for each read.
	fixed *replica
}

// run reads until the context is done.
func (r *reader) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		at := r.fixed
		if at == nil {
			at = r.replicas.any()
		}
		if at.dead() {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		if n%4 == 0 {
			r.readAll(at)
		} else {
			r.readOne(at)
		}
		pause(ctx, time.Duration(20+rand.IntN(100))*time.Millisecond)
	}
}

func (r *reader) readOne(at *replica) {
	ctx, cancel := context.WithTimeout(context.Background(), polltest.Timeout())
	defer cancel()
	names := r.promise.names()
	name := names[rand.IntN(len(names))]
	_, life := at.alive()
	began := r.calls.now()
	object, err := r.workspaces(at).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		r.calls.add(name, call{verb: reads, replica: at.name}, began, found(object))
	case apierrors.IsNotFound(err):
		r.calls.add(name, call{verb: reads, replica: at.name}, began, outcome{known: true})
	default:
		r.failed(at, life, err)
	}
}

func (r *reader) readAll(at *replica) {
	ctx, cancel := context.WithTimeout(context.Background(), polltest.Timeout())
	defer cancel()
	names := r.promise.names()
	_, life := at.alive()
	began := r.calls.now()
	list, err := r.list(ctx, at)
	if err != nil {
		r.failed(at, life, err)
		return
	}
	r.calls.listed(at.name, names, began, byName(list))
	r.observations.list(at.name, list)
}

// failed records an error that a replica may not return: if it does not know, it must
// say when to try again.
func (r *reader) failed(at *replica, life int, err error) {
	_, later := apierrors.SuggestsClientDelay(err)
	if sameLife(at, life) && (!apierrors.IsServiceUnavailable(err) || !later) {
		r.observations.fault("a read at %s: %v", at.name, err)
	}
}
