package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/tracing"
)

// Step is one part of a pass. It runs unless a step that it needs did not succeed, so that a failure
// blocks only the steps that need its result.
type Step struct {
	// Name identifies the step in logs, in traces and in Needs.
	Name string
	// Needs are the names of earlier steps that must have succeeded.
	Needs []string
	// Run does the work. It returns nil, a Stop (run again later, or a user must act), or any other
	// error, which is retried with backoff.
	Run func(ctx context.Context) error
}

// NewStep returns a step whose work reads from and writes to a scope: a Pass, or the scope of a kind.
func NewStep[S any](name string, scope S, run func(context.Context, S) error, needs ...string) Step {
	return Step{Name: name, Needs: needs, Run: func(ctx context.Context) error { return run(ctx, scope) }}
}

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

// Run runs the steps one after the other in the order of the list, and sets the Outcome.
func (p *Pass) Run(ctx context.Context, list []Step) {
	p.Outcome = Outcome{Failed: map[string]error{}, Skipped: map[string]string{}}
	for _, step := range list {
		missing := slices.IndexFunc(step.Needs, func(need string) bool { return !p.Outcome.Succeeded(need) })
		if missing >= 0 {
			p.Outcome.Skipped[step.Name] = step.Needs[missing]
			continue
		}
		ctx, span := tracing.Start(ctx, step.Name)
		err := step.Run(ctx)
		stop := ensure.Stopped(err)
		if stop != nil && stop.State == ensure.Waiting {
			span.AddEvent("waiting", trace.WithAttributes(attribute.String("reason", stop.Reason)))
			span.End()
		} else {
			tracing.End(span, err)
		}
		switch {
		case stop != nil:
			p.Outcome.Failed[step.Name] = err
			p.Outcome.RequeueAfter = ensure.Sooner(p.Outcome.RequeueAfter, stop.After)
		case err != nil:
			p.Outcome.Failed[step.Name] = err
			p.Outcome.Err = errors.Join(p.Outcome.Err, fmt.Errorf("%s: %w", step.Name, err))
		}
	}
}

// The names of the shared steps.
const (
	StepName             = "name"
	StepAdoption         = "adoption"
	StepFinalizer        = "finalizer"
	StepReferences       = "references"
	StepServiceAccount   = "service account"
	StepWorkspaces       = "workspace access"
	StepDeployment       = "deployment"
	StepService          = "service"
	StepDisruptionBudget = "disruption budget"
	StepNetworkPolicy    = "network policy"
	StepMetricsService   = "metrics service"
	StepServiceMonitor   = "service monitor"
	StepExposure         = "exposure"
	StepPrune            = "prune"
	StepRollout          = "rollout"
	StepOrphaned         = "orphaned children"
	StepRelease          = "release"
)

// Begin returns the first shared steps: the check of the name, the search for an adopted
// Deployment, and the finalizer. All of the kind's own steps need StepFinalizer.
func (t *Toolkit) Begin(p *Pass) []Step {
	return []Step{
		NewStep(StepName, p, t.CheckName),
		NewStep(StepAdoption, p, t.LookForAdopted, StepName),
		NewStep(StepFinalizer, p, t.EnsureFinalizer, StepAdoption),
	}
}
