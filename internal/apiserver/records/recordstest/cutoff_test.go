package recordstest_test

import (
	"context"
	"io"
	"sync"

	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records/recordstest"
)

// cutOff is the connection of one replica to a cluster that it shares with others.
type cutOff struct {
	*recordstest.Cluster
	mu      sync.Mutex
	err     error
	cancels []context.CancelFunc
}

// cut makes every request of the replica fail with the error, and ends its watches. Nil reverts
// that.
func (c *cutOff) cut(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, cancel := range c.cancels {
		cancel()
	}
	c.cancels = nil
}

func (c *cutOff) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *cutOff) Create(ctx context.Context, r *records.Record) error {
	if err := c.failure(); err != nil {
		return err
	}
	return c.Cluster.Create(ctx, r)
}

func (c *cutOff) Update(ctx context.Context, r *records.Record) error {
	if err := c.failure(); err != nil {
		return err
	}
	return c.Cluster.Update(ctx, r)
}

func (c *cutOff) List(ctx context.Context, q records.Query) (*records.List, error) {
	if err := c.failure(); err != nil {
		return nil, err
	}
	return c.Cluster.List(ctx, q)
}

func (c *cutOff) Watch(ctx context.Context, q records.Query) (records.Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	inside, cancel := context.WithCancel(ctx)
	c.cancels = append(c.cancels, cancel)
	stream, err := c.Cluster.Watch(inside, q)
	return cutStream{stream, inside}, err
}

// cutStream ends as a broken connection does.
type cutStream struct {
	records.Stream
	ctx context.Context
}

func (s cutStream) Next() (records.Event, error) {
	event, err := s.Stream.Next()
	if s.ctx.Err() != nil {
		return records.Event{}, io.ErrUnexpectedEOF
	}
	return event, err
}
