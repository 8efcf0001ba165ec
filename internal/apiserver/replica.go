package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry/template"
)

const (
	// catchUpEvery is the interval at which a replica checks whether it has caught up.
	catchUpEvery = 5 * time.Millisecond
	// closeTimeout is the maximum time for the cleanup of a replica that ends.
	closeTimeout = 2 * time.Second
	// sweepEvery is the interval at which unused objects are looked up.
	sweepEvery = 10 * time.Minute
)

// stores are the records of all kinds, by the plural of the kind.
type stores map[string]*records.Store

// has implements objects.
func (s stores) has(controlPlane types.NamespacedName) bool {
	for _, store := range s {
		if store.Table.Count(controlPlane) > 0 {
			return true
		}
	}
	return false
}

// filled returns an error if this replica does not know all objects yet.
func (s stores) filled() error {
	for _, store := range s {
		if !store.Table.Filled() {
			return fmt.Errorf("the records of kind %s were not read yet: check that kube-apiserver responds, and that their "+
				"custom resource definition is installed and readable", store.Kind())
		}
	}
	return nil
}

// caughtUp implements objects.
func (s stores) caughtUp(ctx context.Context) error {
	if err := s.filled(); err != nil {
		return err
	}
	for _, store := range s {
		if err := store.CatchUp(ctx, catchUpEvery); err != nil {
			return err
		}
	}
	return nil
}

// mirrorAndPublish mirrors and publishes the sync status while this replica is the leader.
func (s *storage) mirrorAndPublish(ctx context.Context) {
	for {
		// The writes of the previous leader must not be missed, and the mirror continues with its sync status.
		err := s.stores.caughtUp(ctx)
		if err == nil {
			err = s.states.takeOver(ctx)
		}
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			log.FromContext(ctx).Info("Could not prepare the mirror", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(statesRetry):
		}
	}
	var publishing sync.WaitGroup
	publishing.Go(func() { s.states.publish(ctx) })
	publishing.Go(func() { s.sweep(ctx) })
	publishing.Go(func() { s.pods.Run(ctx) })
	publishing.Go(func() { s.events.Run(ctx) })
	defer publishing.Wait()
	s.mirror.Run(ctx)
}

// sweep periodically removes unused objects: files of templates, and heartbeats of replicas that
// were killed. It also stores files again that were deleted by hand.
func (s *storage) sweep(ctx context.Context) {
	unused := map[types.NamespacedName]time.Time{}
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.stores[template.Plural].Sweep(ctx, time.Now(), unused); err != nil {
			log.FromContext(ctx).Info("Could not check the stored files of templates", "error", err.Error())
		}
		for _, store := range s.stores {
			if err := store.SweepHeartbeats(ctx, time.Now()); err != nil {
				log.FromContext(ctx).Info("Could not remove the heartbeats of stopped replicas", "kind", store.Kind(), "error", err.Error())
			}
		}
	}
}

// restored returns an error when the cluster went back to an earlier state. What this replica has in memory is
// then newer than the records, so it ignores them and writes nothing. The process ends, and the kubelet starts
// it again: the memory of a process is in many places, of which one could be missed.
func (s *storage) restored(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, store := range s.stores {
		group.Go(func() error { return store.WaitRestored(ctx) })
	}
	return group.Wait()
}

// close ends the sessions of Coder users and deletes the heartbeats of this replica.
func (s *storage) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	s.sessions.Close(ctx)
	for _, store := range s.stores {
		if err := store.Close(ctx); err != nil {
			log.FromContext(ctx).Info("Could not remove the heartbeat of this replica", "kind", store.Kind(), "error", err.Error())
		}
	}
}
