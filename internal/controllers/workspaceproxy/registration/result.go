package registration

import (
	"errors"
	"regexp"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/outcome"
)

// State is what a pass came to.
type State = outcome.State

// The states of a pass.
const (
	// Ready: what the spec asks for is so.
	Ready = outcome.Ready
	// Waiting: it will be so without anybody's help.
	Waiting = outcome.Waiting
	// Failed: somebody has to help. RequeueAfter still says when it is tried
	// again.
	Failed = outcome.Failed
	// Unverified: there is a token, of which nothing is known, because the address
	// where it counts gives the operator no answer. The pods may reach it.
	Unverified State = "Unverified"
)

const (
	retrySoon    = 5 * time.Second
	retryAnswer  = 15 * time.Second
	retryFailed  = time.Minute
	retryLicense = 5 * time.Minute
)

// Result is what a pass came to. Its texts are stable from pass to pass and
// hold no secret.
type Result struct {
	State State
	// Reason is a constant of api/v1alpha1.
	Reason  string
	Message string
	// TokenRef is the session token for the pods. It stays while Coder gives no
	// answer, and is nil where there is none.
	TokenRef *coderv1alpha1.TokenSecretReference
	// AccessURL is the access URL of the Coder that this token is for. It is not
	// that of the request while a new registration waits. Empty means that nothing
	// is known.
	AccessURL string
	// ProxyID and ProxyName are those of the registration, as far as known.
	ProxyID, ProxyName string
	// Registered says whether Coder knows the proxy and accepts the token. Nil means
	// that this pass learned nothing about it.
	Registered *bool
	// SecretForeign says that the Secret for the token is somebody else's.
	SecretForeign bool
	// LeftBehind describes the registrations that Remove could not remove.
	LeftBehind []string
	// RequeueAfter is when to look again. 0 means no need.
	RequeueAfter time.Duration
	// Events are to be told whatever the State, and also beside an error.
	Events outcome.Events
}

// absence is a stop because the way to Coder is gone, and will not come back by
// itself.
type absence struct{ *outcome.Stop }

// Unwrap gives the stop to who ends the pass with it.
func (a absence) Unwrap() error { return a.Stop }

func absent(reason, format string, args ...any) error {
	return absence{outcome.Fails(reason, retryFailed, format, args...)}
}

func isAbsent(err error) bool {
	var a absence
	return errors.As(err, &a)
}

// answered turns a call that failed into what the pass comes to: an outage is
// waited for, a refusal is told.
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

// ownAddress is the end of a connection that is another one each time.
var ownAddress = regexp.MustCompile(`\S+:\d+->`)

// Stable is a text about a connection that failed without what is another each
// time.
func Stable(text string) string { return ownAddress.ReplaceAllString(text, "") }
