package registry

import (
	"sync"

	"github.com/google/uuid"
)

// mostCached limits how many builds a BuildCache remembers. It only bridges the time until
// an object or its record has what is cached.
const mostCached = 1024

// BuildCache remembers what Coder reported about builds that ended. That never changes. It
// is safe for concurrent use.
type BuildCache[T any] struct {
	mu    sync.Mutex
	known map[uuid.UUID]T
}

// NewBuildCache returns an empty cache.
func NewBuildCache[T any]() *BuildCache[T] { return &BuildCache[T]{known: map[uuid.UUID]T{}} }

// Get returns what is known of a build.
func (c *BuildCache[T]) Get(build uuid.UUID) (T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.known[build]
	return value, ok
}

// Put remembers something about a build. If there are too many, all are forgotten.
func (c *BuildCache[T]) Put(build uuid.UUID, value T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= mostCached {
		clear(c.known)
	}
	c.known[build] = value
}
