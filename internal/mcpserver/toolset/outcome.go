package toolset

import "context"

// The outcomes of a call, for the log and for metrics.
const (
	OutcomeOK = "ok"
	// OutcomeInvalid is a call that can succeed only with other arguments.
	OutcomeInvalid     = "invalid"
	OutcomeDenied      = "denied"
	OutcomeNotFound    = "notfound"
	OutcomeConflict    = "conflict"
	OutcomeUnavailable = "unavailable"
	OutcomeTimeout     = "timeout"
	OutcomeCancelled   = "cancelled"
	// OutcomeDeclined is a call to which the user said no.
	OutcomeDeclined = "declined"
	// OutcomeNeedsInput is a call that the user must confirm first.
	OutcomeNeedsInput = "needsinput"
	OutcomeError      = "error"
)

// Outcome is how a call ended. It is written by the tool's goroutine before the
// answer is given, so that the one who waits for the answer may read it.
type Outcome struct{ value string }

// String is one of the outcomes, or empty where no tool ran.
func (o *Outcome) String() string { return o.value }

type outcomeKey struct{}

// WithOutcome returns a context in which a call of a tool records its outcome.
// Where the call runs twice, because the user was asked in between, the second
// run counts.
func WithOutcome(ctx context.Context) (context.Context, *Outcome) {
	o := &Outcome{}
	return context.WithValue(ctx, outcomeKey{}, o), o
}

func setOutcome(ctx context.Context, value string) {
	if o, ok := ctx.Value(outcomeKey{}).(*Outcome); ok {
		o.value = value
	}
}
