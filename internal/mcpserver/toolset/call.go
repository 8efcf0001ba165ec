package toolset

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
)

// Call is one call of a tool. One with no more than Kube works too: its client
// cannot be asked and wants no progress.
type Call struct {
	// Kube acts as the caller. That of a tool which only reads refuses writes.
	Kube *callers.Kube

	// dialog is how the client's user is asked; nil where they cannot be.
	dialog *dialog
	// requireElicitation refuses the argument confirm in place of a dialog.
	requireElicitation bool
	// unconfirmed lets the call go on without a confirmation.
	unconfirmed bool
	// progress is how the client is told how far the call is; nil where it did not
	// ask for that.
	progress *progress
	// time is nil for the real one.
	time clock.WithTicker
}

func (c *Call) clock() clock.WithTicker {
	if c.time == nil {
		return clock.RealClock{}
	}
	return c.time
}

// Now is the time.
func (c *Call) Now() time.Time { return c.clock().Now() }
