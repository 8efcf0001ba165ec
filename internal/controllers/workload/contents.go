package workload

import (
	"crypto/sha256"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// contentKey names a Secret or ConfigMap.
type contentKey struct {
	kind string
	name types.NamespacedName
}

// content is what a Secret or ConfigMap held when it was read. Values are kept only as hashes. An
// empty version means that the object did not exist.
type content struct {
	version string
	keys    map[string][sha256.Size]byte
}

func (c content) missing() bool { return c.version == "" }

// contents caches contents as long as an object uses them.
type contents struct {
	mu     sync.Mutex
	known  map[contentKey]content
	usedBy map[types.UID][]contentKey
	uses   map[contentKey]int
}

func (c *contents) get(key contentKey) (content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.known[key]
	return known, ok
}

func (c *contents) put(key contentKey, known content) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[contentKey]content{}
	}
	c.known[key] = known
}

// use replaces the keys that an owner uses. A content that no owner uses is dropped.
func (c *contents) use(owner types.UID, keys []contentKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.usedBy == nil {
		c.usedBy, c.uses = map[types.UID][]contentKey{}, map[contentKey]int{}
	}
	before := c.usedBy[owner]
	if slices.Equal(before, keys) {
		return
	}
	for _, key := range keys {
		c.uses[key]++
	}
	for _, key := range before {
		if c.uses[key]--; c.uses[key] <= 0 {
			delete(c.uses, key)
			delete(c.known, key)
		}
	}
	c.usedBy[owner] = slices.Clone(keys)
	if len(keys) == 0 {
		delete(c.usedBy, owner)
	}
}
