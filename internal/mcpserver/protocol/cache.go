package protocol

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// listTTL is how long a client may cache a list. It is short because lists depend on the
// caller's permissions, which may change.
const listTTL = 30 * time.Second

// setCacheable sets how long a client may cache an answer. All answers depend on the
// caller. The content of a resource can change at any time, so it must not be cached.
func setCacheable(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
	c.CacheScope, c.TTLMs = "private", int(listTTL.Milliseconds())
	if _, ok := req.(*mcp.ReadResourceRequest); ok {
		c.TTLMs = 0
	}
}
