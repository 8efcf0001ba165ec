package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// settled is how long the cluster must be unchanged to count as idle.
const settled = 15 * time.Second

// managedBy is the label of the operator's objects.
const managedBy, operator = "app.kubernetes.io/managed-by", "coder-k8s"

func controlPlanes() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "coder.com", Version: "v1alpha1", Resource: "codercontrolplanes"}
}

// children returns the kinds of which every control plane of the fleet has one object.
func children() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	}
}

// fleetState counts objects and their changes with watches.
type fleetState struct {
	mu sync.Mutex
	// held are the names of the operator's objects of each kind; for control
	// planes only those whose status is for their newest spec.
	held map[string]sets.Set[string]
	// changes counts all events of the watches, and last is the time of the last
	// one.
	changes int
	last    time.Time
}

func watchFleet(ctx context.Context, config *rest.Config, namespace string) (*fleetState, error) {
	c := &fleetState{held: map[string]sets.Set[string]{}, last: time.Now()}
	light, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	full, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	informers := map[schema.GroupVersionResource]cache.SharedIndexInformer{}
	lightFactory := metadatainformer.NewFilteredSharedInformerFactory(light, 0, namespace, nil)
	for _, resource := range children() {
		informers[resource] = lightFactory.ForResource(resource).Informer()
	}
	fullFactory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(full, 0, namespace, nil)
	informers[controlPlanes()] = fullFactory.ForResource(controlPlanes()).Informer()
	var synced []cache.InformerSynced
	for resource, informer := range informers {
		registration, err := informer.AddEventHandler(c.handler(resource.Resource))
		if err != nil {
			return nil, err
		}
		synced = append(synced, registration.HasSynced)
	}
	lightFactory.Start(ctx.Done())
	fullFactory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, errors.New("the watches did not start")
	}
	return c, nil
}

func (c *fleetState) handler(resource string) cache.ResourceEventHandler {
	see := func(obj any) {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return
		}
		counts := accessor.GetLabels()[managedBy] == operator
		if whole, ok := obj.(*unstructured.Unstructured); ok {
			counts = observed(whole)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changes, c.last = c.changes+1, time.Now()
		if c.held[resource] == nil {
			c.held[resource] = sets.New[string]()
		}
		if counts {
			c.held[resource].Insert(accessor.GetName())
		} else {
			c.held[resource].Delete(accessor.GetName())
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }}
}

// observed reports whether the status is for the newest spec, and all objects are
// applied.
func observed(plane *unstructured.Unstructured) bool {
	generation, _, _ := unstructured.NestedInt64(plane.Object, "status", "observedGeneration")
	conditions, _, _ := unstructured.NestedSlice(plane.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] == "ResourcesApplied" && condition["status"] == "True" {
			return generation == plane.GetGeneration()
		}
	}
	return false
}

// complete waits until every kind has as many objects as there are control planes,
// and returns the time of the last change.
func (c *fleetState) complete(ctx context.Context, wanted int) (time.Time, error) {
	return c.until(ctx, func() bool {
		for _, resource := range append(children(), controlPlanes()) {
			if c.held[resource.Resource].Len() < wanted {
				return false
			}
		}
		return true
	})
}

// settle waits until nothing has changed for a while.
func (c *fleetState) settle(ctx context.Context, quiet time.Duration) error {
	_, err := c.until(ctx, func() bool { return time.Since(c.last) >= quiet })
	return err
}

func (c *fleetState) until(ctx context.Context, done func() bool) (time.Time, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c.mu.Lock()
		ready, last := done(), c.last
		c.mu.Unlock()
		if ready {
			return last, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// changed returns the number of changes so far.
func (c *fleetState) changed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// String returns the progress of the fleet.
func (c *fleetState) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for _, resource := range append(children(), controlPlanes()) {
		parts = append(parts, fmt.Sprintf("%d %s", c.held[resource.Resource].Len(), resource.Resource))
	}
	return strings.Join(parts, ", ")
}
