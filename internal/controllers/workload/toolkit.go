package workload

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/metrics"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

const (
	// DefaultFieldOwner names the operator in the managed fields of its objects.
	DefaultFieldOwner = "coder-k8s"
	// DefaultConcurrency is how many objects of a kind are reconciled at once.
	DefaultConcurrency = 8

	// RestInterval is when to look again at something that works. Watches tell of
	// everything in the cluster; this is for what they cannot tell.
	RestInterval = time.Hour
	// PollInterval is when to look again at something that does not work yet.
	PollInterval = 15 * time.Second
	// RetryInterval is when to try again what only a person can mend, where no watch
	// tells that it was.
	RetryInterval = time.Minute
	// ConflictInterval lets a cache catch up.
	ConflictInterval = time.Second
	// terminatingInterval waits for an object that is being deleted.
	terminatingInterval = 5 * time.Second

	recorderName = "coder-k8s"
)

// KindSet says which kinds the cluster knows.
type KindSet interface {
	Has(kind schema.GroupVersionKind) bool
}

// Options are what a Toolkit can be told. The zero value works.
type Options struct {
	// Metadata reads the metadata of Secrets and ConfigMaps. Nil means the manager's
	// cache, or the client where there is no manager.
	Metadata client.Reader
	// Logs reads the logs of pods. Nil means the API server's.
	Logs PodLogs
	// Clock is the time. Nil means the real one.
	Clock clock.PassiveClock
	// Optional says which optional kinds the cluster knows. Nil means none.
	Optional KindSet
	// Metrics counts. Nil means that nothing is counted.
	Metrics *metrics.Metrics
	// Tracing makes the spans of passes. Nil makes none.
	Tracing *tracing.Provider
	// FieldOwner names the operator in managed fields. Empty means coder-k8s.
	FieldOwner string
	// ClusterDomain is the DNS domain of the cluster. Empty means cluster.local.
	ClusterDomain string
	// Namespaces are those that the operator works in. Empty means all.
	Namespaces []string
	// OperatorNamespace is where the operator runs. Empty means that it is not known.
	OperatorNamespace string
	// PodIPv6 says that the first address of pods in this cluster is one of IPv6.
	PodIPv6 bool
	// Concurrency is how many objects of a kind are reconciled at once. 0 means
	// DefaultConcurrency.
	Concurrency int
	// Authors checks that the author of spec.rbac may grant it. Nil asks the cluster.
	Authors Authors
}

// Authors returns an error unless the author of an object may grant rights.
type Authors interface {
	Check(ctx context.Context, obj client.Object, grant author.Grant) error
}

// Toolkit is what the controllers of all kinds work with. New makes one. It is safe
// for concurrent use, for different objects at once.
type Toolkit struct {
	Client client.Client
	Live   client.Reader
	// Uncached reads and writes past any cache: what a kind keeps in Secrets.
	Uncached client.Client
	Applier  *apply.Applier
	Recorder events.EventRecorder
	Options

	contents  contents
	starts    starts
	versions  versions
	orphaning orphaning
}

// New makes the Toolkit of a manager's controllers.
func New(mgr manager.Manager, options Options) (*Toolkit, error) {
	if options.Logs == nil {
		clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return nil, fmt.Errorf("making a client for logs: %w", err)
		}
		options.Logs = podLogs{client: clientset}
	}
	if options.Metadata == nil {
		options.Metadata = mgr.GetCache()
	}
	uncached, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("making a client without a cache: %w", err)
	}
	t := NewWith(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder(recorderName), options)
	t.Uncached = uncached
	return t, nil
}

// NewWith makes a Toolkit of its parts: a client that may read from a cache, and a
// reader that does not.
func NewWith(c client.Client, live client.Reader, recorder events.EventRecorder, options Options) *Toolkit {
	if options.Metadata == nil {
		options.Metadata = c
	}
	if options.Logs == nil {
		options.Logs = noLogs{}
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Optional == nil {
		options.Optional = noKinds{}
	}
	if options.Authors == nil {
		options.Authors = author.Checker{Client: c}
	}
	options.FieldOwner = cmp.Or(options.FieldOwner, DefaultFieldOwner)
	options.ClusterDomain = cmp.Or(options.ClusterDomain, resources.DefaultClusterDomain)
	options.Concurrency = cmp.Or(options.Concurrency, DefaultConcurrency)
	return &Toolkit{
		Client: c, Live: live, Uncached: c, Recorder: recorder, Options: options,
		Applier: &apply.Applier{Client: c, Live: live, FieldOwner: options.FieldOwner},
	}
}

// NewPass begins a pass over an object with the given status.
func (t *Toolkit) NewPass(kind Kind, obj client.Object, status *coderv1alpha1.WorkloadStatus, w resources.Workload) Pass {
	p := Pass{Kind: kind, Object: obj, Previous: *status.DeepCopy(), Now: t.Clock.Now(), Workload: w}
	t.starts.begin(&p)
	t.orphaning.note(obj)
	return p
}

type noKinds struct{}

func (noKinds) Has(schema.GroupVersionKind) bool { return false }

// starts remembers since when a generation is worked on, for the time until it is
// Ready.
type starts struct {
	mu    sync.Mutex
	known map[types.UID]start
}

type start struct {
	generation int64
	at         time.Time
}

// begin notes a generation that no status is about yet. That of a new object began
// when it was made.
func (s *starts) begin(p *Pass) {
	generation := p.Object.GetGeneration()
	if p.Previous.ObservedGeneration == generation {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := p.Object.GetUID()
	if s.known[id].generation == generation {
		return
	}
	at := p.Now
	if p.Previous.ObservedGeneration <= 0 {
		at = p.Object.GetCreationTimestamp().Time
	}
	if s.known == nil {
		s.known = map[types.UID]start{}
	}
	s.known[id] = start{generation: generation, at: at}
}

// end forgets an object, and gives the time for which it was worked on, where that
// is known.
func (s *starts) end(p *Pass) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := p.Object.GetUID()
	began, ok := s.known[id]
	delete(s.known, id)
	return p.Now.Sub(began.at), ok && !began.at.IsZero() && began.generation == p.Object.GetGeneration()
}
