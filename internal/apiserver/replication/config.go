package replication

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectlog"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/partition"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// DefaultBindAddress is where replicas talk to each other.
const DefaultBindAddress = ":6444"

// Config is what a Replica needs.
type Config struct {
	// Identity tells this replica from the others: the name of the pod.
	Identity string
	// Namespace is the operator's. The Leases are there.
	Namespace string
	// Client is uncached.
	Client kubernetes.Interface
	// Listener is where other replicas reach this one. Without it BindAddress is
	// listened on.
	Listener    net.Listener
	BindAddress string
	// AdvertiseAddress is told to the others, the listener's own where it is empty.
	AdvertiseAddress string
	// Logs are followed and decided on, by the plural of the resource.
	Logs map[string]LogConfig
	// Board is carried along.
	Board *partition.Board
	// Lease is how long the writer stays the writer without word from kube-apiserver. 0
	// means four seconds. A longer one outlasts worse moments of the machine, and makes
	// everybody wait as long for another writer when this one was killed.
	Lease time.Duration
	// Clock gives revisions and the times of changes. How long the Lease is ours is
	// measured by the machine's own clock, always.
	Clock clock.Clock
	// Metrics may be nil.
	Metrics *Metrics
	// Tracing makes the spans of what other replicas ask for. Nil makes none.
	Tracing *tracing.Provider

	// timing and dial are for tests; their zero values are production's.
	timing timing
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// LogConfig is one kind.
type LogConfig struct {
	Log *objectlog.Log
	// NewObject gives an empty object of the kind.
	NewObject func() objectlog.Object
}

// Duties are what a replica does while it is the writer.
type Duties struct {
	// Committers decide writes, by the plural of the resource.
	Committers map[string]objectlog.Committer
	// Run ends with its context, soon. It is called anew each time that the replica
	// becomes the writer.
	Run func(ctx context.Context)
}

// timing is every duration of the package.
type timing struct {
	// lease, renew and retry are those of the election.
	lease, renew, retry time.Duration
	// request bounds a request to kube-apiserver within the election.
	request time.Duration
	// reserve is how far ahead of use the Lease reserves revisions.
	reserve time.Duration

	// publish is how often a replica renews its own Lease, published how long that is
	// good, forgotten after what time more the writer removes it.
	publish, published, forgotten time.Duration
	// relist is how often an unknown fingerprint makes us read the Leases again.
	relist time.Duration

	// acknowledge is how long a change waits for a follower.
	acknowledge time.Duration
	// beat is how often the writer tells that it is there, silence when it is missed.
	beat, silence time.Duration
	// write bounds sending one frame.
	write time.Duration
	// dial bounds making a connection.
	dial time.Duration
	// prepare bounds asking the others at a takeover, pull fetching what they have.
	prepare, pull time.Duration
	// drain is how long writes under way and duties may take when the time as the
	// writer ends.
	drain time.Duration
	// fresh bounds asking the writer for its head.
	fresh time.Duration
	// appear is how long a write that is done may take to reach this replica.
	appear time.Duration
	// reconnect is the pause before a follower tries again.
	reconnect time.Duration
}

// defaultLease is the lease of a timing that names none.
const defaultLease = 4 * time.Second

// withDefaults gives production's timing for a lease, or for none, unless t is one.
func (t timing) withDefaults(lease time.Duration) timing {
	if t != (timing{}) {
		return t
	}
	if lease == 0 {
		lease = defaultLease
	}
	return timing{
		lease: lease, renew: lease * 5 / 8, retry: 500 * time.Millisecond,
		request: lease / 4, reserve: 30 * time.Second,
		publish: 10 * time.Second, published: 40 * time.Second, forgotten: 10 * time.Minute,
		relist:      200 * time.Millisecond,
		acknowledge: 500 * time.Millisecond,
		beat:        time.Second, silence: 4 * time.Second,
		write: 5 * time.Second, dial: 500 * time.Millisecond,
		prepare: 500 * time.Millisecond, pull: 5 * time.Second,
		drain: time.Second, fresh: 300 * time.Millisecond, appear: 2 * time.Second,
		reconnect: 100 * time.Millisecond,
	}
}

func (c *Config) complete() error {
	var faults []error
	if reasons := validation.IsDNS1123Subdomain(peerLeasePrefix + c.Identity); len(reasons) > 0 {
		faults = append(faults, fmt.Errorf("identity %q: %s; give the name of the pod", c.Identity, reasons[0]))
	}
	if c.Namespace == "" {
		faults = append(faults, errors.New("namespace: it is empty; give the operator's"))
	}
	if c.Client == nil {
		faults = append(faults, errors.New("client: it is missing"))
	}
	if c.Lease != 0 && c.Lease < time.Second {
		faults = append(faults, fmt.Errorf("lease: %s is too short to be renewed; give a second or more, or 0 for %s", c.Lease, defaultLease))
	}
	if c.Board == nil {
		faults = append(faults, errors.New("board: it is missing"))
	}
	for resource, log := range c.Logs {
		if log.Log == nil || log.NewObject == nil {
			faults = append(faults, fmt.Errorf("logs: %q lacks its log or the way to make an object", resource))
		}
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if c.BindAddress == "" {
		c.BindAddress = DefaultBindAddress
	}
	c.timing = c.timing.withDefaults(c.Lease)
	if c.dial == nil {
		c.dial = (&net.Dialer{Timeout: c.timing.dial, KeepAlive: c.timing.silence}).DialContext
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuring replication: %w", err)
	}
	return nil
}
