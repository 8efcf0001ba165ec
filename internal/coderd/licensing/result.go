package licensing

import (
	"errors"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
)

// State is what a pass came to.
type State = outcome.State

// The states of a pass.
const (
	// None: no license is asked for, and none of the operator's own is left.
	None State = ""
	// Ready: Coder has the license that is asked for.
	Ready = outcome.Ready
	// Waiting: it will be so without anybody's help.
	Waiting = outcome.Waiting
	// Failed: somebody has to help. RequeueAfter still says when it is tried
	// again.
	Failed = outcome.Failed
)

const (
	soon             = 5 * time.Second
	retryUnreachable = 15 * time.Second
	retryFailed      = time.Minute
)

// Allowance is what the licenses of a Coder allow, in the words of the API.
type Allowance struct {
	// Tier is none, trial, enterprise, premium or unknown.
	Tier string
	// ExternalProvisioners, WorkspaceProxy and HighAvailability are entitled,
	// grace_period, not_entitled or unknown.
	ExternalProvisioners string
	WorkspaceProxy       string
	HighAvailability     string
}

// Result is what a pass came to. Its texts are stable from pass to pass and
// hold no secret.
type Result struct {
	State State
	// Reason is a constant of api/v1alpha1. It is empty with None.
	Reason  string
	Message string
	// Own are the identities of the licenses that the operator added, and of the
	// one that it is about to add, to be recorded.
	Own []string
	// Applied says that this pass gave Coder the license.
	Applied bool
	// AppliedAt is when Coder got the license that is asked for, and Hash the
	// SHA-256 of its text. They are empty where Coder does not have it.
	AppliedAt *time.Time
	Hash      string
	// ExpiresAt is the end of the term of the license that is asked for, whether
	// Coder has it or not.
	ExpiresAt *time.Time
	// Allowance is what the licenses allow. It is nil where Coder did not say;
	// then AllowanceErr says why.
	Allowance    *Allowance
	AllowanceErr error
	// RequeueAfter is when to look again.
	RequeueAfter time.Duration
	// Events are to be told whatever the State, and also beside an error.
	Events outcome.Events
}

// heardStop is a stop after Coder did answer, so that it can be asked what the
// licenses allow.
type heardStop struct{ *outcome.Stop }

// Unwrap gives the stop to who ends the pass with it.
func (h heardStop) Unwrap() error { return h.Stop }

// heard stops the part of a pass that is about the licenses, and no other one.
func heard(reason string, after time.Duration, message string) error {
	return heardStop{outcome.Fails(reason, after, "%s", message)}
}

func isHeard(err error) bool {
	var h heardStop
	return errors.As(err, &h)
}
