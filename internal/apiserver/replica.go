package apiserver

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/mirror"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/replication"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/workspacepods"
)

// newReplica makes this process one of the replicas that share the logs.
func newReplica(config Config, k kube, s *storage) (*replication.Replica, error) {
	metrics, err := replication.NewMetrics(config.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of replication: %w", err)
	}
	return replication.New(replication.Config{
		Identity:         config.Identity,
		Namespace:        config.PodNamespace,
		Client:           k.client,
		Listener:         config.PeerListener,
		BindAddress:      config.Options.PeerBindAddress,
		AdvertiseAddress: config.Options.PeerAdvertiseAddress,
		Logs: map[string]replication.LogConfig{
			workspacesResource: {Log: s.logs[workspacesResource], NewObject: newWorkspace},
			templatesResource:  {Log: s.logs[templatesResource], NewObject: newTemplate},
		},
		Lease:   config.WriterLease,
		Board:   s.board,
		Clock:   config.Clock,
		Metrics: metrics,
		Tracing: config.Tracing,
	})
}

// writeWith is what the replica that writes does for as long as it is the one.
func writeWith(records *metadata.Store, m *mirror.Mirror, pods *workspacepods.Watcher) func(context.Context) {
	return func(ctx context.Context) {
		// What the writer before kept must not be missed.
		if err := catchUp(ctx, records); err != nil {
			return
		}
		var watching sync.WaitGroup
		defer watching.Wait()
		watching.Go(func() { pods.Run(ctx) })
		m.Run(ctx)
	}
}

// hints carries to the mirror what the kinds changed. The kinds are made before it.
type hints struct {
	mirror atomic.Pointer[mirror.Mirror]
}

func (h *hints) workspace(controlPlane types.NamespacedName, id uuid.UUID) {
	if m := h.mirror.Load(); m != nil {
		m.HintWorkspace(controlPlane, id)
	}
}

func (h *hints) pods(controlPlane types.NamespacedName, id uuid.UUID) {
	if m := h.mirror.Load(); m != nil {
		m.HintPods(controlPlane, id)
	}
}

func (h *hints) template(controlPlane types.NamespacedName, id uuid.UUID) {
	if m := h.mirror.Load(); m != nil {
		m.HintTemplate(controlPlane, id)
	}
}

// recordsRetry is how long the writer waits before it reads the kept metadata
// again.
const recordsRetry = 500 * time.Millisecond

// catchUp reads the kept metadata until that succeeds or the time as the writer
// is over.
func catchUp(ctx context.Context, records *metadata.Store) error {
	if records == nil {
		return nil
	}
	for {
		err := records.CatchUp(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		log.FromContext(ctx).Error(err, "Reading the kept metadata; it is tried again")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(recordsRetry):
		}
	}
}
