package registration

import (
	"errors"
	"regexp"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
)

// State is the outcome of a pass.
type State = outcome.State

// The states of a pass.
const (
	// Ready means that the registration is as the spec asks for.
	Ready = outcome.Ready
	// Waiting means that the registration will become ready without user action.
	Waiting = outcome.Waiting
	// Failed means that a user must act. RequeueAfter still contains the time of the next attempt.
	Failed = outcome.Failed
	// Unverified means that there is a token that could not be checked, because the access URL does
	// not answer the operator. The pods may still reach it.
	Unverified State = "Unverified"
)

const (
	retrySoon    = 5 * time.Second
	retryAnswer  = 15 * time.Second
	retryFailed  = time.Minute
	retryLicense = 5 * time.Minute
)

// Result is the result of a pass. Its messages do not change from pass to pass, and contain no
// secret.
type Result struct {
	State State
	// Reason is a constant of api/v1alpha1.
	Reason  string
	Message string
	// TokenRef is the location of the session token for the pods. It is kept while Coder does not
	// answer, and is nil if there is no token.
	TokenRef *coderv1alpha1.TokenSecretReference
	// AccessURL is the access URL of the Coder that this token is for. While a new registration is
	// pending, it differs from that of the request. Empty means unknown.
	AccessURL string
	// ProxyID and ProxyName identify the registration, as far as it is known.
	ProxyID, ProxyName string
	// Registered reports whether the proxy is registered in Coder and Coder accepts the token. Nil
	// means that this pass did not find out.
	Registered *bool
	// SecretForeign reports that the Secret for the token belongs to another owner.
	SecretForeign bool
	// LeftBehind describes the registrations that Remove could not remove.
	LeftBehind []string
	// RequeueAfter is when to run the next pass. 0 means that none is needed.
	RequeueAfter time.Duration
	// Events must be recorded whatever the State is, also if the pass returned an error.
	Events outcome.Events
}

// absence is a stop because the credentials for Coder no longer exist and will not return by
// themselves.
type absence struct{ *outcome.Stop }

// Unwrap returns the stop.
func (a absence) Unwrap() error { return a.Stop }

func absent(reason, format string, args ...any) error {
	return absence{outcome.Fails(reason, retryFailed, format, args...)}
}

func isAbsent(err error) bool {
	var a absence
	return errors.As(err, &a)
}

// answered converts a failed request to Coder into a stop: Waiting for an outage, Failed for a
// rejection.
func answered(err error) error {
	var own *coderd.Error
	if err == nil || !errors.As(err, &own) {
		return err
	}
	text := Stable(err.Error())
	switch {
	case coderd.IsNotSupported(err):
		return outcome.Fails(coderv1alpha1.ReasonNotSupported, retryLicense,
			"this Coder has no workspace proxies: it is the build without licensed features, or too old; use Coder's own image (%s)", text)
	case coderd.IsUnreachable(err):
		return outcome.Waits(coderv1alpha1.ReasonUnreachable, retryAnswer, "%s", text)
	case coderd.IsRateLimited(err):
		return outcome.Waits(coderv1alpha1.ReasonRateLimited, max(own.RetryAfter, retrySoon), "Coder asks for fewer requests: %s", text)
	case coderd.IsNotEntitled(err):
		return outcome.Fails(coderv1alpha1.ReasonNotEntitled, retryLicense,
			"the license of Coder does not allow workspace proxies; add one that does (%s)", text)
	case coderd.IsUnauthorized(err):
		return outcome.Fails(coderv1alpha1.ReasonTokenRefused, retryFailed, "Coder does not accept the token with which the proxy is registered (%s)", text)
	case coderd.IsForbidden(err):
		return outcome.Fails(coderv1alpha1.ReasonForbidden, retryFailed,
			"the token with which the proxy is registered is not one of a user with the role owner (%s)", text)
	}
	return outcome.Fails(coderv1alpha1.ReasonCoderRefused, retryFailed, "%s", text)
}

// ownAddress matches the local address of a connection, which differs each time.
var ownAddress = regexp.MustCompile(`\S+:\d+->`)

// Stable returns the text of a connection error without parts that differ each time.
func Stable(text string) string { return ownAddress.ReplaceAllString(text, "") }
