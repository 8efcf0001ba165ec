package protocol

import (
	"context"
	"sync"
)

// cancels holds the cancel functions of running work.
type cancels struct {
	mu    sync.Mutex
	ended bool
	last  int
	all   map[int]context.CancelFunc
}

// add adds a cancel function, until forget is called.
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

// cancel cancels all running work. Work that is added later is cancelled at once.
func (c *cancels) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, cancel := range c.all {
		cancel()
	}
}
