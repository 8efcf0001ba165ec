package access

import (
	"fmt"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// State is what a pass came to.
type State string

// The states of a pass.
const (
	// Ready: what the spec asks for is so.
	Ready State = "Ready"
	// Waiting: it will be so without anybody's help.
	Waiting State = "Waiting"
	// Failed: somebody has to help. RequeueAfter still says when it is tried
	// again.
	Failed State = "Failed"
)

const (
	soon           = 5 * time.Second
	retryFailed    = time.Minute
	retrySecret    = 30 * time.Second
	lifetimeWanted = 7 * 24 * time.Hour
)

// Event tells of something that changed.
type Event struct {
	// Type is that of Kubernetes: Normal or Warning.
	Type string
	// Reason is a constant of api/v1alpha1.
	Reason string
	// Message is a sentence for a person, with the values.
	Message string
}

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
	// ExpiresAt is when that token runs out, where the operator made it.
	ExpiresAt *time.Time
	// RequeueAfter is when to look again. 0 means no need.
	RequeueAfter time.Duration
	// Events are to be told whatever the State, and also beside an error.
	Events []Event
}

// stop ends a pass before it is Ready. It travels as an error.
type stop struct {
	state   State
	reason  string
	message string
	after   time.Duration
}

func (s *stop) Error() string { return s.message }

func waiting(reason string, after time.Duration, format string, args ...any) error {
	return &stop{state: Waiting, reason: reason, after: after, message: fmt.Sprintf(format, args...)}
}

func failed(reason string, after time.Duration, format string, args ...any) error {
	return &stop{state: Failed, reason: reason, after: after, message: fmt.Sprintf(format, args...)}
}

// answered turns a failed call into what the pass comes to: an outage is waited
// for, a refusal is told with the given reason.
func answered(reason string, err error) error {
	var own *coderd.Error
	switch {
	case err == nil:
		return nil
	case coderd.IsUnreachable(err):
		return waiting(coderv1alpha1.ReasonUnreachable, soon, "%v", err)
	case coderd.IsRateLimited(err) && asCoderError(err, &own):
		return waiting(coderv1alpha1.ReasonWaiting, max(own.RetryAfter, soon), "Coder asks for fewer requests: %v", err)
	case asCoderError(err, &own):
		return failed(reason, retryFailed, "%v", err)
	default:
		return err
	}
}
