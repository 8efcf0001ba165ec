package licensing

import "time"

// State is what a pass came to.
type State string

// The states of a pass.
const (
	// None: no license is asked for, and none of the operator's own is left.
	None State = ""
	// Ready: Coder has the license that is asked for.
	Ready State = "Ready"
	// Waiting: it will be so without anybody's help.
	Waiting State = "Waiting"
	// Failed: somebody has to help. RequeueAfter still says when it is tried
	// again.
	Failed State = "Failed"
)

const (
	soon             = 5 * time.Second
	retryUnreachable = 15 * time.Second
	retryFailed      = time.Minute
)

// Event tells of something that changed.
type Event struct {
	// Type is that of Kubernetes: Normal or Warning.
	Type string
	// Reason is a constant of api/v1alpha1.
	Reason string
	// Message is a sentence for a person.
	Message string
}

// Allowance is what the licenses of a Coder allow, in the words of the API.
type Allowance struct {
	// Tier is none, trial, enterprise, premium or unknown.
	Tier string
	// ExternalProvisioners and WorkspaceProxy are entitled, grace_period,
	// not_entitled or unknown.
	ExternalProvisioners string
	WorkspaceProxy       string
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
	Events []Event
}

// stop ends the part of a pass that is about the licenses. It travels as an
// error.
type stop struct {
	state   State
	reason  string
	message string
	after   time.Duration
	// answered says that Coder did answer, so that it can be asked what the
	// licenses allow.
	answered bool
}

func (s *stop) Error() string { return s.message }
