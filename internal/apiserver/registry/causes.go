package registry

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// causeWithin is the maximum age of a failed build whose log is read. Without it, the first sync of
// a Coder deployment with many failed builds would read many logs.
const causeWithin = 24 * time.Hour

// Causes finds the error of Terraform for builds whose error in Coder is only an exit status. It is
// safe for concurrent use.
type Causes struct {
	clock clock.PassiveClock
	// known maps builds to the error of Terraform. The error is empty if the log has none.
	known *BuildCache[string]
}

// NewCauses returns Causes with an empty cache.
func NewCauses(c clock.PassiveClock) *Causes {
	return &Causes{clock: c, known: NewBuildCache[string]()}
}

// Learn reads the log of a failed build once, if Coder does not report why it failed.
func (c *Causes) Learn(ctx context.Context, build uuid.UUID, reported string, ended time.Time,
	read func(context.Context, uuid.UUID) (string, error),
) {
	if _, known := c.known.Get(build); known || !strings.Contains(reported, "exit status") || c.clock.Since(ended) > causeWithin {
		return
	}
	cause, err := read(ctx, build)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Could not read the log of a failed build for the error of Terraform", "id", build, "reason", err.Error())
		return
	}
	c.known.Put(build, cause)
}

// Get returns the error of Terraform, and "" if it is not known.
func (c *Causes) Get(build uuid.UUID) string {
	cause, _ := c.known.Get(build)
	return cause
}

// mostCached limits how many builds a BuildCache remembers. The cache only bridges the time until
// the cached value is stored in an object or its record.
const mostCached = 1024

// BuildCache caches what Coder reported about finished builds. A finished build never changes, so
// entries do not expire. It is safe for concurrent use.
type BuildCache[T any] struct {
	mu    sync.Mutex
	known map[uuid.UUID]T
}

// NewBuildCache returns an empty cache.
func NewBuildCache[T any]() *BuildCache[T] { return &BuildCache[T]{known: map[uuid.UUID]T{}} }

// Get returns the cached value of a build, and reports whether there is one.
func (c *BuildCache[T]) Get(build uuid.UUID) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.known[build]
	return value, ok
}

// Put stores the value of a build. If the cache is full, all other entries are dropped.
func (c *BuildCache[T]) Put(build uuid.UUID, value T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= mostCached {
		clear(c.known)
	}
	c.known[build] = value
}
