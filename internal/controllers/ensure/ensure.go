package ensure

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// State is the result of a pass.
type State string

// The states of a pass.
const (
	// Ready means that the state in Coder matches the spec.
	Ready State = "Ready"
	// Waiting means that it will match without any action by a user.
	Waiting State = "Waiting"
	// Failed means that a user must act. The Result's RequeueAfter still says when the next attempt
	// is made.
	Failed State = "Failed"
)

// Result is the result of a pass. Its texts do not change from pass to pass if nothing else does,
// and contain no secret.
type Result struct {
	State State
	// Reason is a constant of api/v1alpha1.
	Reason  string
	Message string
	// RequeueAfter is the time until the next pass. 0 means that none is needed.
	RequeueAfter time.Duration
	// Events must be recorded for every State, and also if the pass returned an error.
	Events Events
}

// Ready records that the pass is complete.
func (r *Result) Ready(reason, message string) {
	r.State, r.Reason, r.Message = Ready, reason, message
}

// Finish records the Stop with which a pass ended. It returns any other error.
func (r *Result) Finish(err error) error {
	stop := Stopped(err)
	if stop == nil {
		return err
	}
	r.State, r.Reason, r.Message, r.RequeueAfter = stop.State, stop.Reason, stop.Message, stop.After
	return nil
}

// NotReady returns the error with which a step waits for the next pass, or nil if the pass is Ready.
func (r *Result) NotReady(after time.Duration) error {
	if r.State == Ready {
		return nil
	}
	return Waits(r.Reason, after, "%s", r.Message)
}

// Event is a change to record as a Kubernetes Event.
type Event struct {
	// Type is the type of the Kubernetes Event: Normal or Warning.
	Type string
	// Reason is a constant of api/v1alpha1.
	Reason string
	// Message is a sentence for people, with the values filled in.
	Message string
}

// Events are the events of a pass.
type Events []Event

// Normal adds an event about something that was done.
func (e *Events) Normal(reason, message string) {
	*e = append(*e, Event{Type: corev1.EventTypeNormal, Reason: reason, Message: message})
}

// Warning adds an event about a failure.
func (e *Events) Warning(reason, message string) {
	*e = append(*e, Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message})
}

// Stop ends a pass before it is Ready. It is returned as an error.
type Stop struct {
	State State
	// Reason is a constant of api/v1alpha1.
	Reason  string
	Message string
	// After is the time until the next attempt.
	After time.Duration
	// Unavailable reports that no request was sent, because there are no credentials for this Coder.
	Unavailable bool
}

// Error implements error.
func (s *Stop) Error() string { return s.Message }

// Waits returns a Stop with the state Waiting, which resolves itself.
func Waits(reason string, after time.Duration, format string, args ...any) *Stop {
	return &Stop{State: Waiting, Reason: reason, After: after, Message: fmt.Sprintf(format, args...)}
}

// Fails returns a Stop with the state Failed, which a user must resolve.
func Fails(reason string, after time.Duration, format string, args ...any) *Stop {
	return &Stop{State: Failed, Reason: reason, After: after, Message: fmt.Sprintf(format, args...)}
}

// Unavailable returns a Stop like Fails, because there are no credentials for this Coder.
func Unavailable(reason string, after time.Duration, format string, args ...any) *Stop {
	stop := Fails(reason, after, format, args...)
	stop.Unavailable = true
	return stop
}

// Stopped returns the Stop in the chain of err, or nil.
func Stopped(err error) *Stop {
	s, _ := errors.AsType[*Stop](err)
	return s
}

// Sooner returns the shorter delay. A delay of 0 is unset and is ignored.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// IsUnavailable reports whether err is a Stop because there are no credentials for this Coder.
func IsUnavailable(err error) bool {
	s := Stopped(err)
	return s != nil && s.Unavailable
}

// Digest identifies everything on which a response of Coder depends.
type Digest [sha256.Size]byte

// DigestOf returns the Digest of values.
func DigestOf(parts ...string) Digest { return sha256.Sum256([]byte(strings.Join(parts, "\x00"))) }

// Entry is a response of Coder and the time for which it is valid.
type Entry[T any] struct {
	Value     T
	Digest    Digest
	At, Until time.Time
}

// Cache holds the last response of Coder about each object. The zero value is empty. It is safe for
// concurrent use.
type Cache[K comparable, T any] struct{ entries sync.Map }

// Get returns the entry of an object, and reports whether it is about this Digest and still valid.
func (c *Cache[K, T]) Get(object K, about Digest, now time.Time) (Entry[T], bool) {
	known, _ := c.entries.Load(object)
	e, ok := known.(Entry[T])
	return e, ok && e.Digest == about && now.Before(e.Until)
}

// Put replaces the entry of an object.
func (c *Cache[K, T]) Put(object K, e Entry[T]) { c.entries.Store(object, e) }

// Forget removes the entry of an object, so that Coder is asked again.
func (c *Cache[K, T]) Forget(object K) { c.entries.Delete(object) }

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
