package toolset

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// Call is one call of a tool. Only Kube is required: without the other fields the client
// cannot be asked for confirmation and gets no progress notifications.
type Call struct {
	// Kube impersonates the caller. For a tool that only reads, it rejects writes.
	Kube *callers.Kube

	// dialog asks the client's user for confirmation. It is nil if the client does not
	// support that.
	dialog *dialog
	// requireElicitation rejects the argument confirm as a replacement for a dialog.
	requireElicitation bool
	// unconfirmed skips the confirmation.
	unconfirmed bool
	// progress sends progress notifications. It is nil if the client did not request any.
	progress *progress
	// time is the clock; nil means the real one.
	time clock.WithTicker
}

func (c *Call) clock() clock.WithTicker {
	if c.time == nil {
		return clock.RealClock{}
	}
	return c.time
}

// Now returns the current time.
func (c *Call) Now() time.Time { return c.clock().Now() }
