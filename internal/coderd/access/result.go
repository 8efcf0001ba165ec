package access

import (
	"errors"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
)

// State is the result of a pass.
type State = outcome.State

// The states of a pass.
const (
	// Ready means that the access matches the spec.
	Ready = outcome.Ready
	// Waiting means that it will match without any action by a user.
	Waiting = outcome.Waiting
	// Failed means that a user must act. RequeueAfter still says when the next attempt is made.
	Failed = outcome.Failed
)

const (
	soon           = 5 * time.Second
	retryFailed    = time.Minute
	retrySecret    = 30 * time.Second
	lifetimeWanted = 7 * 24 * time.Hour
	// warnBefore is the longest time before its expiry at which a given token is reported as
	// expiring.
	warnBefore = 14 * 24 * time.Hour
)

// Result is the result of a pass. Its texts do not change from pass to pass if nothing else does,
// and contain no secret.
type Result struct {
	State State
	// Reason is a constant of api/v1alpha1.
	Reason  string
	Message string
	// TokenRef is the token to use. It is kept while Coder does not respond and while only the
	// initial admin is missing. It is nil if there is no token or Coder refuses it.
	TokenRef *coderv1alpha1.TokenSecretReference
	// ExpiresAt is the time when that token expires, if known.
	ExpiresAt *time.Time
	// RequeueAfter is the time until the next check. 0 means that no check is needed.
	RequeueAfter time.Duration
	// Events are to be recorded for every State, and also if Ensure or Revoke returns an error.
	Events outcome.Events
}

// answered maps the error of a call to Coder: an outage or a rate limit becomes Waiting, a refusal
// becomes Failed with the given reason.
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
