package ensure

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"
)

// Digest identifies everything on which a response of Coder depends.
type Digest [sha256.Size]byte

// DigestOf returns the Digest of values.
func DigestOf(parts ...string) Digest { return sha256.Sum256([]byte(strings.Join(parts, "\x00"))) }

// Entry is a response of Coder and the time for which it is valid.
type Entry[T any] struct {
	Value     T
	Digest    Digest
	At, Until time.Time
}

// Cache holds the last response of Coder about each object. The zero value is empty. It is safe for
// concurrent use.
type Cache[K comparable, T any] struct{ entries sync.Map }

// Get returns the entry of an object, and reports whether it is about this Digest and still valid.
func (c *Cache[K, T]) Get(object K, about Digest, now time.Time) (Entry[T], bool) {
	known, _ := c.entries.Load(object)
	e, ok := known.(Entry[T])
	return e, ok && e.Digest == about && now.Before(e.Until)
}

// Put replaces the entry of an object.
func (c *Cache[K, T]) Put(object K, e Entry[T]) { c.entries.Store(object, e) }

// Forget removes the entry of an object, so that Coder is asked again.
func (c *Cache[K, T]) Forget(object K) { c.entries.Delete(object) }
