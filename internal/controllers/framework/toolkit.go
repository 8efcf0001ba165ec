package framework

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/apply"
	"github.com/coder-k8s/coder-k8s/internal/kube/author"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

const (
	// fieldOwner is the name of the operator in the managed fields of its objects.
	fieldOwner = "coder-k8s"

	// RestInterval is the time until the next pass over an object that works. Watches report all
	// changes in the cluster. This interval is for changes that no watch reports.
	RestInterval = time.Hour
	// PollInterval is the time until the next pass over an object that does not work yet.
	PollInterval = 15 * time.Second
	// RetryInterval is the time until the next attempt if a user must act and no watch reports that
	// they did.
	RetryInterval = time.Minute
	// ConflictInterval is the time to wait for a stale cache.
	ConflictInterval = time.Second
	// terminatingInterval is the time to wait for an object that is being deleted.
	terminatingInterval = 5 * time.Second
)

// KindSet reports which kinds the cluster serves.
type KindSet interface {
	Has(kind schema.GroupVersionKind) bool
}

// Options configure a Toolkit. The zero value is valid.
type Options struct {
	// Metadata reads the metadata of Secrets and ConfigMaps. New sets it to the manager's cache. Nil
	// means the client.
	Metadata client.Reader
	// Logs reads the last lines of a container's log. New sets it to those of the API server. Nil means
	// none.
	Logs func(context.Context, LogRequest) (string, error)
	// Clock provides the time. Nil means the real time.
	Clock clock.PassiveClock
	// Optional reports which optional kinds the cluster serves. Nil means none.
	Optional KindSet
	// Metrics are the metrics of the controllers. Nil means metrics that are not exported.
	Metrics *Metrics
	// NewClient creates a client for a Coder. Nil means coderd.New.
	NewClient func(coderd.Config) (*coderd.Client, error)
	// Tracing creates a span for each pass. Nil disables it.
	Tracing *tracing.Provider
	resources.Cluster
	// Namespaces are the namespaces that the operator watches. Empty means all.
	Namespaces []string
	// CheckAuthor returns an error unless the author of an object may grant permissions with spec.rbac.
	// Nil means an author.Checker that asks the API server.
	CheckAuthor func(context.Context, client.Object, author.Grant) error
}

// Toolkit provides the dependencies of the controllers of all kinds. Use New to create one. It is
// safe for concurrent use with different objects.
type Toolkit struct {
	Client client.Client
	Live   client.Reader
	// Uncached reads and writes without a cache, for example the Secrets that a kind maintains.
	Uncached client.Client
	Applier  *apply.Applier
	Recorder events.EventRecorder
	Options

	// contents are the contents of each object, by its uid.
	contents sync.Map
	starts   starts
	// versions remembers the resource version of each object at the end of the last pass over it. A
	// stale cache may return an older version to the next pass. If the status of that version happens
	// to match the result of the pass, nothing would be written, although the status in the cluster
	// differs. No watch reports a change of the status, so no later pass would correct it.
	versions  sync.Map
	orphaning orphaning
}

// New creates the Toolkit of a manager's controllers.
func New(mgr manager.Manager, options Options) (*Toolkit, error) {
	clientset, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for logs: %w", err)
	}
	options.Metadata = mgr.GetCache()
	options.Logs = func(ctx context.Context, request LogRequest) (string, error) {
		read := &corev1.PodLogOptions{
			Container: request.Container, Previous: request.Previous,
			TailLines: ptr.To[int64](60), LimitBytes: ptr.To[int64](64 * 1024),
		}
		if request.Since > 0 {
			read.SinceSeconds = ptr.To(int64(request.Since.Seconds()))
		}
		text, err := clientset.CoreV1().Pods(request.Namespace).GetLogs(request.Pod, read).DoRaw(ctx)
		if err != nil {
			return "", fmt.Errorf("reading the log of container %q: %w", request.Container, err)
		}
		return string(text), nil
	}
	uncached, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("making a client without a cache: %w", err)
	}
	t := NewWith(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetEventRecorder("coder-k8s"), options)
	t.Uncached = uncached
	return t, nil
}

// NewWith creates a Toolkit from a client that may read from a cache, and a reader that does not.
func NewWith(c client.Client, live client.Reader, recorder events.EventRecorder, options Options) *Toolkit {
	if options.Metadata == nil {
		options.Metadata = c
	}
	if options.Logs == nil {
		options.Logs = func(context.Context, LogRequest) (string, error) { return "", nil }
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Optional == nil {
		options.Optional = &OptionalKinds{}
	}
	if options.CheckAuthor == nil {
		options.CheckAuthor = author.Checker{Client: c}.Check
	}
	if options.Metrics == nil {
		// A new registry registers everything.
		options.Metrics, _ = NewMetrics(prometheus.NewRegistry())
	}
	if options.NewClient == nil {
		options.NewClient = coderd.New
	}
	return &Toolkit{
		Client: c, Live: live, Uncached: c, Recorder: recorder, Options: options,
		Applier: &apply.Applier{Client: c, Live: live, FieldOwner: fieldOwner},
	}
}

// NewPass starts a pass over an object with the given status.
func (t *Toolkit) NewPass(kind Kind, obj client.Object, status *coderv1alpha1.WorkloadStatus, w resources.Workload) Pass {
	p := Pass{Kind: kind, Object: obj, Previous: *status.DeepCopy(), Now: t.Clock.Now(), Workload: w, wanted: map[string]bool{}}
	t.starts.begin(&p)
	t.orphaning.note(obj)
	return p
}

// starts remembers, by uid, when work on a generation began, to measure the time until the object is
// ready.
type starts struct{ sync.Map }

type start struct {
	generation int64
	at         time.Time
}

// begin records a generation that the status has not observed yet. For a new object, work began
// when it was created.
func (s *starts) begin(p *Pass) {
	generation := p.Object.GetGeneration()
	if p.Previous.ObservedGeneration == generation {
		return
	}
	known, _ := s.Load(p.Object.GetUID())
	if began, ok := known.(start); ok && began.generation == generation {
		return
	}
	at := p.Now
	if p.Previous.ObservedGeneration <= 0 {
		at = p.Object.GetCreationTimestamp().Time
	}
	s.Store(p.Object.GetUID(), start{generation: generation, at: at})
}

// end forgets an object. It returns how long the work on the current generation took, and whether
// that is known.
func (s *starts) end(p *Pass) (time.Duration, bool) {
	known, _ := s.LoadAndDelete(p.Object.GetUID())
	began, ok := known.(start)
	return p.Now.Sub(began.at), ok && !began.at.IsZero() && began.generation == p.Object.GetGeneration()
}

// Traced returns a reconciler whose passes are traced, for a controller that does not use SetUp. Each
// pass is a trace of its own, and the reconcile ID is the request ID of the requests to Coder. The
// logger of a pass already has the same ID as reconcileID.
func (t *Toolkit) Traced(kind string, next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (_ reconcile.Result, err error) {
		id := string(controller.ReconcileIDFromContext(ctx))
		ctx = tracing.WithRequestID(ctx, id)
		ctx, span := t.Tracing.Begin(ctx, "Reconcile "+kind, tracing.Names(req.Namespace, req.Name),
			trace.WithAttributes(attribute.String("reconcile.id", id)))
		defer func() { tracing.End(span, err) }()
		return next.Reconcile(ctx, req)
	})
}
