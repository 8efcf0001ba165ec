package protocol

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// listTTL is for how long a client may keep a list. What the caller may use
// changes with their rights.
const listTTL = 30 * time.Second

// setCacheable says how long a client may keep an answer. All of them depend on
// who asked; what a resource holds can change at any time.
func setCacheable(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
	c.CacheScope, c.TTLMs = "private", int(listTTL.Milliseconds())
	if _, ok := req.(*mcp.ReadResourceRequest); ok {
		c.TTLMs = 0
	}
}
