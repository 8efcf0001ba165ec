package protocol

import (
	"context"
	"sync"
)

// cancels is what is under way and can be cancelled.
type cancels struct {
	mu    sync.Mutex
	ended bool
	last  int
	all   map[int]context.CancelFunc
}

// add adds what cancels something, until it is forgotten.
func (c *cancels) add(cancel context.CancelFunc) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[int]context.CancelFunc{}
	}
	c.last++
	id := c.last
	c.all[id] = cancel
	if c.ended {
		cancel()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, id)
	}
}

// cancel cancels everything, also what is added later.
func (c *cancels) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, cancel := range c.all {
		cancel()
	}
}
