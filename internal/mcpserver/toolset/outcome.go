package toolset

import "context"

// The outcomes of a call, as recorded in the log and in metrics.
const (
	OutcomeOK = "ok"
	// OutcomeInvalid means that the call can succeed only with other arguments.
	OutcomeInvalid     = "invalid"
	OutcomeDenied      = "denied"
	OutcomeNotFound    = "notfound"
	OutcomeConflict    = "conflict"
	OutcomeUnavailable = "unavailable"
	OutcomeTimeout     = "timeout"
	OutcomeCancelled   = "cancelled"
	// OutcomeDeclined means that the user declined the confirmation.
	OutcomeDeclined = "declined"
	// OutcomeNeedsInput means that the user must confirm the call first.
	OutcomeNeedsInput = "needsinput"
	OutcomeError      = "error"
)

// Outcome records how a call ended. The tool's goroutine writes it before it returns the
// answer, so reading it after the answer needs no lock.
type Outcome struct{ value string }

// String returns one of the outcomes, or "" if no tool ran.
func (o *Outcome) String() string { return o.value }

type outcomeKey struct{}

// WithOutcome returns a context in which a tool call records its outcome. If the call runs
// twice, because the user was asked in between, the outcome is that of the second run.
func WithOutcome(ctx context.Context) (context.Context, *Outcome) {
	o := &Outcome{}
	return context.WithValue(ctx, outcomeKey{}, o), o
}

func setOutcome(ctx context.Context, value string) {
	if o, ok := ctx.Value(outcomeKey{}).(*Outcome); ok {
		o.value = value
	}
}
