package outcome

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// End splits the error with which a pass ended into a Stop and any other error. At most one of the
// two is not nil.
func End(err error) (stop *Stop, other error) {
	if stop = Stopped(err); stop != nil {
		return stop, nil
	}
	return nil, err
}

// Stopped returns the Stop in the chain of err, or nil.
func Stopped(err error) *Stop {
	var s *Stop
	if !errors.As(err, &s) {
		return nil
	}
	return s
}
