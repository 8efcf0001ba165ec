package metadatatest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
)

// cluster holds resources as an API server does. Whoever watches is told before
// a write returns, unless the watch is held.
type cluster struct {
	clock clock.PassiveClock

	mu        sync.Mutex
	version   int
	resources map[types.NamespacedName]*metadata.Resource
	feeds     []metadata.Feed
	held      bool
	waiting   []func()
	attempts  int
	failures  []failure
	writes    []string
}

type failure struct {
	at      int
	arrives bool
	err     error
}

var _ metadata.Cluster = (*cluster)(nil)

func newCluster(passive clock.PassiveClock) *cluster {
	return &cluster{clock: passive, version: 1000, resources: map[types.NamespacedName]*metadata.Resource{}}
}

func (c *cluster) fail(n int, arrives bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, failure{at: c.attempts + n, arrives: arrives, err: err})
}

// write counts a write, has it fail as a test asked, and tells who watches.
func (c *cluster) write(ctx context.Context, verb string, resource *metadata.Resource, do func(key types.NamespacedName) (tell func(metadata.Feed), err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: resource.Namespace, Name: resource.Name}
	c.mu.Lock()
	c.attempts++
	attempt := c.attempts
	i := slices.IndexFunc(c.failures, func(f failure) bool { return f.at == attempt })
	var planned failure
	if i >= 0 {
		planned = c.failures[i]
		c.failures = slices.Delete(c.failures, i, i+1)
	}
	if planned.err != nil && !planned.arrives {
		c.mu.Unlock()
		return planned.err
	}
	tell, err := do(key)
	if err == nil {
		c.writes = append(c.writes, verb+" "+key.String())
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.tell(tell)
	return planned.err
}

// tell tells all who watch, later where the watch is held.
func (c *cluster) tell(tell func(metadata.Feed)) {
	c.mu.Lock()
	feeds := slices.Clone(c.feeds)
	if c.held {
		c.waiting = append(c.waiting, func() { c.tell(tell) })
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	for _, feed := range feeds {
		tell(feed)
	}
}

// next gives the version of the next write.
func (c *cluster) next() string {
	c.version++
	return strconv.Itoa(c.version)
}

func (c *cluster) store(key types.NamespacedName, resource *metadata.Resource) func(metadata.Feed) {
	resource.ResourceVersion = c.next()
	stored := resource.DeepCopy()
	c.resources[key] = stored
	return func(feed metadata.Feed) { feed.Changed(context.Background(), stored.DeepCopy()) }
}

// Create implements metadata.Cluster.
func (c *cluster) Create(ctx context.Context, resource *metadata.Resource) error {
	return c.write(ctx, "create", resource, func(key types.NamespacedName) (func(metadata.Feed), error) {
		if c.resources[key] != nil {
			return nil, apierrors.NewAlreadyExists(resources, key.Name)
		}
		resource.UID = types.UID(fmt.Sprintf("resource-%d", c.version+1))
		resource.CreationTimestamp = metav1.NewTime(c.clock.Now()).Rfc3339Copy()
		return c.store(key, resource), nil
	})
}

// Update implements metadata.Cluster.
func (c *cluster) Update(ctx context.Context, resource *metadata.Resource) error {
	return c.write(ctx, "update", resource, func(key types.NamespacedName) (func(metadata.Feed), error) {
		current := c.resources[key]
		switch {
		case current == nil:
			return nil, apierrors.NewNotFound(resources, key.Name)
		case resource.ResourceVersion != "" && resource.ResourceVersion != current.ResourceVersion:
			return nil, apierrors.NewConflict(resources, key.Name, fmt.Errorf("it has version %s", current.ResourceVersion))
		}
		resource.UID, resource.CreationTimestamp = current.UID, current.CreationTimestamp
		return c.store(key, resource), nil
	})
}

// Delete implements metadata.Cluster.
func (c *cluster) Delete(ctx context.Context, resource *metadata.Resource) error {
	return c.write(ctx, "delete", resource, func(key types.NamespacedName) (func(metadata.Feed), error) {
		current := c.resources[key]
		switch {
		case current == nil:
			return nil, apierrors.NewNotFound(resources, key.Name)
		case resource.UID != "" && resource.UID != current.UID:
			return nil, apierrors.NewConflict(resources, key.Name, fmt.Errorf("it has UID %s", current.UID))
		case resource.ResourceVersion != "" && resource.ResourceVersion != current.ResourceVersion:
			return nil, apierrors.NewConflict(resources, key.Name, fmt.Errorf("it has version %s", current.ResourceVersion))
		}
		delete(c.resources, key)
		gone := current.DeepCopy()
		gone.ResourceVersion = c.next()
		return func(feed metadata.Feed) { feed.Removed(context.Background(), gone.DeepCopy()) }, nil
	})
}

// Get implements metadata.Cluster.
func (c *cluster) Get(ctx context.Context, key types.NamespacedName) (*metadata.Resource, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if current := c.resources[key]; current != nil {
		return current.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(resources, key.Name)
}

// List implements metadata.Cluster.
func (c *cluster) List(ctx context.Context) ([]metadata.Listing, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return []metadata.Listing{c.listing()}, nil
}

func (c *cluster) listing() metadata.Listing {
	listing := metadata.Listing{Version: strconv.Itoa(c.version)}
	for _, resource := range c.resources {
		listing.Resources = append(listing.Resources, resource.DeepCopy())
	}
	slices.SortFunc(listing.Resources, func(a, b *metadata.Resource) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return listing
}

// Watch implements metadata.Cluster.
func (c *cluster) Watch(ctx context.Context, feed metadata.Feed) error {
	c.mu.Lock()
	listing := c.listing()
	c.feeds = append(c.feeds, feed)
	c.mu.Unlock()
	feed.Replace(ctx, listing)
	<-ctx.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.feeds = slices.DeleteFunc(c.feeds, func(f metadata.Feed) bool { return f == feed })
	return nil
}

// Namespaces implements metadata.Cluster.
func (c *cluster) Namespaces() []string { return []string{""} }

var resources = schema.GroupResource{Group: "internal.coder.com", Resource: "coderobjectmetadata"}
