package outcome

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// Event tells of something that changed.
type Event struct {
	// Type is that of Kubernetes: Normal or Warning.
	Type string
	// Reason is a constant of api/v1alpha1.
	Reason string
	// Message is a sentence for a person, with the values.
	Message string
}

// Events are what a pass tells.
type Events []Event

// Normal tells of something that was done.
func (e *Events) Normal(reason, message string) {
	*e = append(*e, Event{Type: corev1.EventTypeNormal, Reason: reason, Message: message})
}

// Warning tells of something that went wrong.
func (e *Events) Warning(reason, message string) {
	*e = append(*e, Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message})
}

// Stop ends a pass before it is Ready. It travels as an error.
type Stop struct {
	State State
	// Reason is a constant of api/v1alpha1.
	Reason  string
	Message string
	// After is when to look again.
	After time.Duration
}

// Error implements error.
func (s *Stop) Error() string { return s.Message }

// Waits is a Stop that is over without anybody's help.
func Waits(reason string, after time.Duration, format string, args ...any) *Stop {
	return &Stop{State: Waiting, Reason: reason, After: after, Message: fmt.Sprintf(format, args...)}
}

// Fails is a Stop that somebody has to mend.
func Fails(reason string, after time.Duration, format string, args ...any) *Stop {
	return &Stop{State: Failed, Reason: reason, After: after, Message: fmt.Sprintf(format, args...)}
}

// End takes the Stop out of the error with which a pass ended. Where there is one,
// nothing is left of the error; else it is nil.
func End(err error) (stop *Stop, other error) {
	if stop = Stopped(err); stop != nil {
		return stop, nil
	}
	return nil, err
}

// Stopped is the Stop with which something ended, or nil.
func Stopped(err error) *Stop {
	var s *Stop
	if !errors.As(err, &s) {
		return nil
	}
	return s
}
