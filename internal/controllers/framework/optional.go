package framework

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// optionalInterval is how often missing optional kinds are looked up in the API server.
const optionalInterval = 30 * time.Second

// OptionalKinds tracks which of the optional kinds the cluster serves. It is a manager.Runnable
// that runs on the leader: it polls the API server until all kinds are present, and then ends.
// Passes call Has, which only reads memory.
type OptionalKinds struct {
	// serves reports whether the API server serves a kind.
	serves func(schema.GroupVersionKind) (bool, error)
	clock  clock.WithTicker

	mu       sync.Mutex
	present  map[schema.GroupVersionKind]bool
	onAppear []func(context.Context, schema.GroupVersionKind) error
}

// NewOptionalKinds creates the OptionalKinds of a manager. Add it to the manager after the
// controllers are set up.
func NewOptionalKinds(mgr manager.Manager, clk clock.WithTicker) (*OptionalKinds, error) {
	discovery, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for discovery: %w", err)
	}
	if clk == nil {
		clk = clock.RealClock{}
	}
	return newOptionalKinds(clk, func(kind schema.GroupVersionKind) (bool, error) {
		list, err := discovery.ServerResourcesForGroupVersion(kind.GroupVersion().String())
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("listing the kinds of %s: %w", kind.GroupVersion(), err)
		}
		return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }), nil
	}), nil
}

func newOptionalKinds(clk clock.WithTicker, serves func(schema.GroupVersionKind) (bool, error)) *OptionalKinds {
	return &OptionalKinds{clock: clk, serves: serves, present: map[schema.GroupVersionKind]bool{}}
}

// Has implements KindSet.
func (o *OptionalKinds) Has(kind schema.GroupVersionKind) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.present[kind]
}

// OnAppear registers a function that is called for each kind that appears.
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

// NeedLeaderElection makes the manager start the polling on the leader only, like the controllers.
func (o *OptionalKinds) NeedLeaderElection() bool { return true }

// look asks for the kinds that are still missing, and reports whether all are present.
func (o *OptionalKinds) look(ctx context.Context) bool {
	all := true
	for kind := range OptionalChildren() {
		if o.Has(kind) {
			continue
		}
		there, err := o.serves(kind)
		if err == nil && there {
			for _, do := range o.set(kind, true) {
				if err = do(ctx, kind); err != nil {
					// The kind counts as missing, so that all are called again.
					o.set(kind, false)
					break
				}
			}
		}
		if err == nil && there {
			log.FromContext(ctx).Info("The cluster serves an optional kind", "kind", kind.Kind)
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Could not check whether an optional kind is installed; retrying", "kind", kind.Kind)
		}
		all = all && there && err == nil
	}
	return all
}

// set records whether a kind is present, and returns the registered functions.
func (o *OptionalKinds) set(kind schema.GroupVersionKind, present bool) []func(context.Context, schema.GroupVersionKind) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.present[kind] = present
	return o.onAppear
}
