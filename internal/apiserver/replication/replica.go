package replication

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
)

// Replica is this process among those that show the same history.
type Replica struct {
	config Config
	duties Duties

	numbers    *revisions
	mandate    *mandate
	lock       *lock
	election   *election
	peers      *peers
	dialer     *dialer
	applier    *applier
	hub        *hub
	fresh      *freshness
	sequencers map[string]*objectlog.Sequencer
	server     *http.Server

	// term is there while this replica is the writer.
	term atomic.Pointer[term]
	// leading is held for as long as what belongs to a term runs.
	leading sync.Mutex
	// resigning says that no new term may begin.
	resigning atomic.Bool
}

// New makes a replica that does nothing yet but listen.
func New(config Config) (*Replica, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	certificate, fingerprint, err := makeCertificate(config.Identity, time.Now())
	if err != nil {
		return nil, err
	}
	suffix := make([]byte, 8)
	if _, err := rand.Read(suffix); err != nil {
		return nil, fmt.Errorf("making the identity of this process: %w", err)
	}
	if config.Listener == nil {
		// Nothing is asked of the network here that could be cancelled.
		config.Listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", config.BindAddress)
		if err != nil {
			return nil, fmt.Errorf("listening for other replicas on %s: %w", config.BindAddress, err)
		}
	}
	if config.AdvertiseAddress == "" {
		config.AdvertiseAddress = config.Listener.Addr().String()
	}
	r := &Replica{config: config, sequencers: map[string]*objectlog.Sequencer{}}
	r.numbers = &revisions{clock: config.Clock}
	r.mandate = &mandate{
		numbers: r.numbers, reserve: config.timing.reserve,
		validity: config.timing.lease * 7 / 8, heads: r.greatestHead,
	}
	r.applier = &applier{logs: config.Logs, board: config.Board, clock: config.Clock, metrics: config.Metrics}
	r.hub = newHub(config.timing, r.mandate, config.Metrics)
	r.dialer = &dialer{certificate: certificate, timing: config.timing, dial: config.dial}
	leases := config.Client.CoordinationV1().Leases(config.Namespace)
	r.peers = &peers{
		leases: leases, name: peerLeasePrefix + config.Identity, address: config.AdvertiseAddress,
		fingerprint: fingerprint, timing: config.timing,
	}
	r.lock = &lock{
		leases: leases, identity: config.Identity + "_" + hex.EncodeToString(suffix), address: config.AdvertiseAddress,
		fingerprint: fingerprint, mandate: r.mandate, timing: config.timing,
	}
	r.fresh = &freshness{fetch: r.fetchHeads}
	for resource, log := range config.Logs {
		r.sequencers[resource] = objectlog.NewSequencer(log.Log, r.numbers, r.replicator(resource), config.Clock)
	}
	if r.election, err = newElection(r.lock, config.timing, r.lead, r.deposed); err != nil {
		return nil, errors.Join(err, config.Listener.Close())
	}
	r.server = r.newServer(certificate)
	return r, nil
}

// Lead tells what to do as the writer. It is called before Start.
func (r *Replica) Lead(duties Duties) { r.duties = duties }

// Sequencer decides the changes of one log. It refuses unless this replica is the
// writer.
func (r *Replica) Sequencer(resource string) *objectlog.Sequencer { return r.sequencers[resource] }

// Revisions gives the numbers of changes.
func (r *Replica) Revisions() objectlog.Revisions { return r.numbers }

// Writing says whether this replica decides the changes.
func (r *Replica) Writing() bool { return r.term.Load() != nil }

// Ready says why this replica cannot answer yet. Once it can it always can: who
// the writer is, and whether there is one, does not count.
func (r *Replica) Ready() error {
	for resource, config := range r.config.Logs {
		if !config.Log.Initialized() {
			return fmt.Errorf("the log of %s was not taken over from another replica yet", resource)
		}
	}
	return nil
}

// Start takes part until the context ends, and hands over then.
func (r *Replica) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("replication").WithValues("replica", r.config.Identity)
	work, stop := context.WithCancel(log.IntoContext(context.WithoutCancel(ctx), logger))
	defer stop()
	defer r.dialer.close()
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	failed := make(chan error, 1)
	r.server.BaseContext = func(net.Listener) context.Context { return work }
	r.server.ErrorLog = stdlog.New(&refusalLog{Logger: logger, clock: r.config.Clock}, "", 0)
	running.Go(func() {
		err := r.server.ServeTLS(r.config.Listener, "", "")
		if !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serving other replicas on %s: %w", r.config.Listener.Addr(), err)
		}
	})
	defer func() { _ = r.server.Close() }()
	published := make(chan struct{})
	endPublishing := begin(work, &running, func(ctx context.Context) {
		r.peers.publish(ctx, r.Writing, sync.OnceFunc(func() { close(published) }))
	})
	running.Go(func() {
		if closes(work, published) {
			r.followWriters(work)
		}
	})
	endElection := begin(work, &running, func(ctx context.Context) {
		if closes(ctx, published) {
			r.election.run(ctx)
		}
	})
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	r.handOver(work, endElection, endPublishing)
	return err
}

// begin runs f. It gives what ends it and waits for that.
func begin(ctx context.Context, running *sync.WaitGroup, f func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	running.Go(func() {
		defer close(ended)
		f(ctx)
	})
	return func() {
		cancel()
		<-ended
	}
}

// handOver ends the time as the writer, if it is that, and says good-bye.
func (r *Replica) handOver(ctx context.Context, endElection, endPublishing func()) {
	r.resigning.Store(true)
	wrote := false
	if t := r.term.Load(); t != nil {
		wrote = true
		t.drain(r.config.timing.drain)
		t.cancel()
		r.awaitLead()
	}
	endElection()
	if wrote {
		r.hintAll(ctx)
	}
	// It would make the Lease again that is removed now, or change it in between.
	endPublishing()
	if err := r.peers.withdraw(ctx); err != nil {
		log.FromContext(ctx).Error(err, "Saying good-bye to other replicas")
	}
}

// closes waits for a channel. It gives false where the context ends first.
func closes(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// greatestHead is that of the own logs.
func (r *Replica) greatestHead() uint64 {
	var head uint64
	for _, config := range r.config.Logs {
		head = max(head, config.Log.Head())
	}
	return head
}

// replicator gives what brings the changes of one log to the followers.
func (r *Replica) replicator(resource string) objectlog.Replicate {
	return func(ctx context.Context, changes []objectlog.Change) error {
		term, open := r.hub.current()
		if !open {
			return unavailable("this replica is not the writer")
		}
		b, err := encodeBatch(resource, term, r.config.Logs[resource].Log.Head(), changes)
		if err != nil {
			return err
		}
		sent, err := r.hub.replicate(ctx, b)
		if err != nil && sent {
			r.election.stepDown()
		}
		return err
	}
}
