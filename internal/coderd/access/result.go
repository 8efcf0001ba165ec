package access

import (
	"errors"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
)

// State is what a pass came to.
type State = outcome.State

// The states of a pass.
const (
	// Ready: what the spec asks for is so.
	Ready = outcome.Ready
	// Waiting: it will be so without anybody's help.
	Waiting = outcome.Waiting
	// Failed: somebody has to help. RequeueAfter still says when it is tried
	// again.
	Failed = outcome.Failed
)

const (
	soon           = 5 * time.Second
	retryFailed    = time.Minute
	retrySecret    = 30 * time.Second
	lifetimeWanted = 7 * 24 * time.Hour
	// warnBefore is how long before its end a given token is reported at the latest.
	warnBefore = 14 * 24 * time.Hour
)

// Result is what a pass came to. Its texts are stable from pass to pass and
// hold no secret.
type Result struct {
	State State
	// Reason is a constant of api/v1alpha1.
	Reason  string
	Message string
	// TokenRef is the token to use. It stays while Coder gives no answer, and
	// where only the initial admin is missing; it is nil where there is no token,
	// or Coder refuses it.
	TokenRef *coderv1alpha1.TokenSecretReference
	// ExpiresAt is when that token expires, if known.
	ExpiresAt *time.Time
	// RequeueAfter is when to look again. 0 means no need.
	RequeueAfter time.Duration
	// Events are to be told whatever the State, and also beside an error.
	Events outcome.Events
}

// answered turns a failed call into what the pass comes to: an outage is waited
// for, a refusal is told with the given reason.
func answered(reason string, err error) error {
	var own *coderd.Error
	switch {
	case err == nil:
		return nil
	case coderd.IsUnreachable(err):
		return outcome.Waits(coderv1alpha1.ReasonUnreachable, soon, "%v", err)
	case coderd.IsRateLimited(err) && errors.As(err, &own):
		return outcome.Waits(coderv1alpha1.ReasonWaiting, max(own.RetryAfter, soon), "Coder asks for fewer requests: %v", err)
	case errors.As(err, &own):
		return outcome.Fails(reason, retryFailed, "%v", err)
	default:
		return err
	}
}
