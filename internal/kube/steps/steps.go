package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// Step is one part of a reconciliation over a scope of type S.
type Step[S any] struct {
	// Name identifies the step in logs and in Needs.
	Name string
	// Needs are the names of earlier steps that must have succeeded.
	Needs []string
	// Run does the work and writes its results to the scope.
	Run func(ctx context.Context, scope S) error
}

// Waiting is the error of a step that must run again later.
type Waiting struct {
	Reason, Message string
	// After is the time until the next run. 0 means that a watch will trigger it.
	After time.Duration
}

// Error implements error.
func (w *Waiting) Error() string { return w.Message }

// Stalled is the error of a step that cannot succeed until a user acts.
type Stalled struct {
	Reason, Message string
}

// Error implements error.
func (s *Stalled) Error() string { return s.Message }

// Outcome is the result of the steps.
type Outcome struct {
	// Failed contains the errors of the steps that ran and did not succeed.
	Failed map[string]error
	// Skipped contains the steps that did not run, with the step that each was missing.
	Skipped map[string]string
	// RequeueAfter is the shortest wait that a step asked for, or 0.
	RequeueAfter time.Duration
	// Err joins the errors that must be retried with backoff.
	Err error
}

// Succeeded reports whether a step neither failed nor was skipped.
func (o Outcome) Succeeded(name string) bool {
	_, failed := o.Failed[name]
	_, skipped := o.Skipped[name]
	return !failed && !skipped
}

// Run runs the steps in order.
func Run[S any](ctx context.Context, scope S, list []Step[S]) Outcome {
	outcome := Outcome{Failed: map[string]error{}, Skipped: map[string]string{}}
	for _, step := range list {
		if missing := firstMissing(outcome, step.Needs); missing != "" {
			outcome.Skipped[step.Name] = missing
			continue
		}
		if err := run(ctx, scope, step); err != nil {
			outcome.fail(step.Name, err)
		}
	}
	return outcome
}

// run runs one step as a span of the pass.
func run[S any](ctx context.Context, scope S, step Step[S]) error {
	ctx, span := tracing.Start(ctx, step.Name)
	err := step.Run(ctx, scope)
	var waiting *Waiting
	if errors.As(err, &waiting) {
		span.AddEvent("waiting", trace.WithAttributes(attribute.String("reason", waiting.Reason)))
		span.End()
		return err
	}
	tracing.End(span, err)
	return err
}

func firstMissing(outcome Outcome, needs []string) string {
	for _, need := range needs {
		if !outcome.Succeeded(need) {
			return need
		}
	}
	return ""
}

func (o *Outcome) fail(name string, err error) {
	o.Failed[name] = err
	var waiting *Waiting
	var stalled *Stalled
	switch {
	case errors.As(err, &waiting):
		o.RequeueAfter = Sooner(o.RequeueAfter, waiting.After)
	case errors.As(err, &stalled):
	default:
		o.Err = errors.Join(o.Err, fmt.Errorf("%s: %w", name, err))
	}
}

// Sooner returns the shorter of two waits. 0 means no wait.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
