package workload

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// optionalInterval is how often the cluster is asked for kinds that it lacks.
const optionalInterval = 30 * time.Second

// OptionalKinds knows which of the optional kinds the cluster has. It is a runnable
// of the leader: it asks the API server until all are there, and then ends. Passes
// ask Has, which costs nothing.
type OptionalKinds struct {
	// serves says whether the API server knows a kind.
	serves func(schema.GroupVersionKind) (bool, error)
	clock  clock.WithTicker
	index  func(context.Context, client.Object) error

	mu       sync.Mutex
	present  map[schema.GroupVersionKind]bool
	indexed  map[schema.GroupVersionKind]bool
	onAppear []func(context.Context, schema.GroupVersionKind) error
}

// NewOptionalKinds makes the one of a manager. It has to be added to the manager
// after the controllers are set up.
func NewOptionalKinds(mgr manager.Manager, clk clock.WithTicker) (*OptionalKinds, error) {
	discovery, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for discovery: %w", err)
	}
	if clk == nil {
		clk = clock.RealClock{}
	}
	return newOptionalKinds(clk,
		func(kind schema.GroupVersionKind) (bool, error) { return serves(discovery, kind) },
		func(ctx context.Context, obj client.Object) error {
			return mgr.GetFieldIndexer().IndexField(ctx, obj, IndexController, ControllerOf)
		}), nil
}

func newOptionalKinds(clk clock.WithTicker, serves func(schema.GroupVersionKind) (bool, error),
	index func(context.Context, client.Object) error,
) *OptionalKinds {
	return &OptionalKinds{
		clock: clk, serves: serves, index: index,
		present: map[schema.GroupVersionKind]bool{}, indexed: map[schema.GroupVersionKind]bool{},
	}
}

func serves(d discovery.DiscoveryInterface, kind schema.GroupVersionKind) (bool, error) {
	list, err := d.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("asking for the kinds of %s: %w", kind.GroupVersion(), err)
	}
	if list == nil {
		return false, nil
	}
	for _, resource := range list.APIResources {
		if resource.Kind == kind.Kind {
			return true, nil
		}
	}
	return false, nil
}

// Has implements KindSet.
func (o *OptionalKinds) Has(kind schema.GroupVersionKind) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.present[kind]
}

// OnAppear has a function called for each kind that appears.
func (o *OptionalKinds) OnAppear(do func(context.Context, schema.GroupVersionKind) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.onAppear = append(o.onAppear, do)
}

// Start implements manager.Runnable.
func (o *OptionalKinds) Start(ctx context.Context) error {
	ticker := o.clock.NewTicker(optionalInterval)
	defer ticker.Stop()
	for !o.look(ctx) {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
	return nil
}

// NeedLeaderElection lets only the leader ask, as the controllers do.
func (o *OptionalKinds) NeedLeaderElection() bool { return true }

// look asks for the kinds that are not there yet, and says whether all are.
func (o *OptionalKinds) look(ctx context.Context) bool {
	all := true
	for kind, obj := range OptionalChildren() {
		if o.Has(kind) {
			continue
		}
		there, err := o.serves(kind)
		if err == nil && there {
			err = o.appear(ctx, kind, obj)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Looking for an optional kind failed; it is tried again", "kind", kind.Kind)
		}
		all = all && there && err == nil
	}
	return all
}

// appear has the kind indexed before passes can make objects of it, because they
// then look for them in the cache by index. Where something fails it is as if the
// kind had not appeared, so that all is tried again.
func (o *OptionalKinds) appear(ctx context.Context, kind schema.GroupVersionKind, obj client.Object) error {
	// The manager refuses an index that it has.
	if !o.indexed[kind] {
		if err := o.index(ctx, obj); err != nil {
			return fmt.Errorf("indexing %s: %w", kind.Kind, err)
		}
		o.indexed[kind] = true
	}
	for _, do := range o.set(kind, true) {
		if err := do(ctx, kind); err != nil {
			o.set(kind, false)
			return err
		}
	}
	log.FromContext(ctx).Info("The cluster knows an optional kind", "kind", kind.Kind)
	return nil
}

// set notes whether a kind is there, and gives those who want to know.
func (o *OptionalKinds) set(kind schema.GroupVersionKind, present bool) []func(context.Context, schema.GroupVersionKind) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.present[kind] = present
	return o.onAppear
}
