package access

import (
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
)

// State is the result of a pass.
type State = ensure.State

// The states of a pass.
const (
	Ready   = ensure.Ready
	Waiting = ensure.Waiting
	Failed  = ensure.Failed
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

// Result is the result of a pass.
type Result struct {
	ensure.Result
	// TokenRef is the token to use. It is kept while Coder does not respond and while only the
	// initial admin is missing. It is nil if there is no token or Coder refuses it.
	TokenRef *coderv1alpha1.TokenSecretReference
	// ExpiresAt is the time when that token expires, if known.
	ExpiresAt *time.Time
}

// answered maps the error of a request: an outage or a rate limit becomes Waiting, a refusal becomes
// Failed with the given reason.
func answered(reason string, err error) error {
	return ensure.Answers{
		Unreachable: ensure.Answer{Reason: coderv1alpha1.ReasonUnreachable, After: soon},
		RateLimited: ensure.Fewer(coderv1alpha1.ReasonWaiting, soon, soon),
		Other:       ensure.Answer{Reason: reason, After: retryFailed},
	}.Stop(err)
}
