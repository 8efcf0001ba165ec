package ensure

import (
	"errors"
	"fmt"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// Answers maps the errors of Coder to Stops. Other is required. An entry without a Reason is not
// distinguished: a missing license is then handled like any other refusal with the same status, and
// every other error like Other.
type Answers struct {
	// Unreachable and RateLimited resolve themselves, so that the Stop is Waiting.
	Unreachable, RateLimited Answer
	// A user must resolve these, so that the Stop is Failed.
	NotSupported, NotEntitled, Unauthorized, Forbidden, Other Answer
}

// Answer is the Stop for one kind of error.
type Answer struct {
	// Reason is a constant of api/v1alpha1.
	Reason string
	// After is the time until the next attempt. If Coder sends a time, that one is used, but at least
	// AtLeast.
	After, AtLeast time.Duration
	// Format is the message, with one %s for the text of the error. Empty means that text alone.
	Format string
}

// Stop returns the Stop for an error of Coder. It returns other errors unchanged.
func (a Answers) Stop(err error) error {
	own, ok := errors.AsType[*coderd.Error](err)
	if !ok {
		return err
	}
	for _, c := range []struct {
		is     func(error) bool
		state  State
		answer Answer
	}{
		{coderd.IsNotSupported, Failed, a.NotSupported},
		{coderd.IsUnreachable, Waiting, a.Unreachable},
		{coderd.IsRateLimited, Waiting, a.RateLimited},
		{coderd.IsNotEntitled, Failed, a.NotEntitled},
		{coderd.IsUnauthorized, Failed, a.Unauthorized},
		{coderd.IsForbidden, Failed, a.Forbidden},
	} {
		if c.answer.Reason != "" && c.is(err) {
			return c.answer.stop(c.state, err, own.RetryAfter)
		}
	}
	return a.Other.stop(Failed, err, 0)
}

func (a Answer) stop(state State, err error, retryAfter time.Duration) *Stop {
	stop := &Stop{State: state, Reason: a.Reason, After: a.After, Message: err.Error()}
	if a.AtLeast > 0 && retryAfter > 0 {
		stop.After = max(retryAfter, a.AtLeast)
	}
	if a.Format != "" {
		stop.Message = fmt.Sprintf(a.Format, err)
	}
	return stop
}

// Fewer returns the Answer to a rate limit, with which Coder usually sends the time to wait.
func Fewer(reason string, after, atLeast time.Duration) Answer {
	return Answer{Reason: reason, After: after, AtLeast: atLeast, Format: "Coder's rate limit is exceeded: %s"}
}
