package licensing

import (
	"errors"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
)

// State is the result of a pass.
type State = outcome.State

// The states of a pass.
const (
	// None means that no license is requested and none of the operator's licenses is left.
	None State = ""
	// Ready means that Coder has the requested license.
	Ready = outcome.Ready
	// Waiting means that no user action is needed.
	Waiting = outcome.Waiting
	// Failed means that a user must act. RequeueAfter still says when the next attempt is made.
	Failed = outcome.Failed
)

const (
	soon             = 5 * time.Second
	retryUnreachable = 15 * time.Second
	retryFailed      = time.Minute
)

// Allowance is what the licenses of a Coder allow, in the values of the API.
type Allowance struct {
	// Tier is none, trial, enterprise, premium or unknown.
	Tier string
	// ExternalProvisioners, WorkspaceProxy and HighAvailability are entitled,
	// grace_period, not_entitled or unknown.
	ExternalProvisioners string
	WorkspaceProxy       string
	HighAvailability     string
}

// Result is the result of a pass. Its texts do not change from pass to pass if nothing else does,
// and contain no secret.
type Result struct {
	State State
	// Reason is a constant of api/v1alpha1. It is empty with None.
	Reason  string
	Message string
	// Own are the identities, to be recorded, of the licenses that the operator added or is about
	// to add.
	Own []string
	// Applied reports that this pass uploaded the license to Coder.
	Applied bool
	// AppliedAt is when the requested license was uploaded to Coder, and Hash the SHA-256 of its
	// text. They are empty if Coder does not have the license.
	AppliedAt *time.Time
	Hash      string
	// ExpiresAt is when the requested license expires, whether Coder has it or not.
	ExpiresAt *time.Time
	// Allowance is what the licenses allow. It is nil if Coder did not return it; AllowanceErr is
	// then the reason.
	Allowance    *Allowance
	AllowanceErr error
	// RequeueAfter is the time until the next check.
	RequeueAfter time.Duration
	// Events are to be recorded for every State, and also if Ensure returns an error.
	Events outcome.Events
}

// heardStop is a Stop for which Coder did respond. The pass then still reads the entitlements.
type heardStop struct{ *outcome.Stop }

// Unwrap returns the wrapped Stop.
func (h heardStop) Unwrap() error { return h.Stop }

// heard stops only the part of a pass that handles the licenses.
func heard(reason string, after time.Duration, message string) error {
	return heardStop{outcome.Fails(reason, after, "%s", message)}
}

func isHeard(err error) bool {
	var h heardStop
	return errors.As(err, &h)
}
