package registry

import (
	"sync"

	"github.com/google/uuid"
)

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
