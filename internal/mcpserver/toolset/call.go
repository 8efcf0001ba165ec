package toolset

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

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

// progressInterval is the minimum time between two notifications of a call.
const progressInterval = 500 * time.Millisecond

// Progress sends a progress notification if the client requested any. It sends at most one
// per progressInterval and drops the others.
func (c *Call) Progress(ctx context.Context, message string) {
	if c.progress != nil {
		c.progress.tell(ctx, message)
	}
}

// progress sends the notifications of one call.
type progress struct {
	token  any
	clock  clock.PassiveClock
	notify func(context.Context, *mcp.ProgressNotificationParams) error

	mu   sync.Mutex
	told int
	last time.Time
}

// newProgress returns nil if the client did not request progress notifications.
func newProgress(req *mcp.CallToolRequest, clk clock.PassiveClock) *progress {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return nil
	}
	return &progress{token: token, clock: clk, notify: req.Session.NotifyProgress}
}

// tell sends a notification. It returns false if it dropped the message because of
// progressInterval.
func (p *progress) tell(ctx context.Context, message string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if p.told > 0 && now.Sub(p.last) < progressInterval {
		return false
	}
	p.told++
	p.last = now
	err := p.notify(ctx, &mcp.ProgressNotificationParams{ProgressToken: p.token, Progress: float64(p.told), Message: message})
	if err != nil {
		// The client is gone, or will see the result in the answer.
		log.FromContext(ctx).V(1).Info("Could not tell the progress of a call", "error", err.Error())
	}
	return true
}
