package protocol

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// BenchmarkCall measures the overhead of a call, including the SDK's client on the same
// machine.
func BenchmarkCall(b *testing.B) {
	for name, w := range ways {
		b.Run(name, func(b *testing.B) {
			h := w.of(b, content(addWhoAmI))
			c := h.connect(b, w.era, "alice", nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallTool(b.Context(), &mcp.CallToolParams{Name: "whoami"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
