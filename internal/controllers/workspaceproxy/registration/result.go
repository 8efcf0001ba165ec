package registration

import (
	"regexp"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
)

// State is the result of a pass.
type State = ensure.State

// The states of a pass.
const (
	Ready   = ensure.Ready
	Waiting = ensure.Waiting
	Failed  = ensure.Failed
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

// Result is the result of a pass.
type Result struct {
	ensure.Result
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
}

// answers maps the errors of requests to Coder.
var answers = ensure.Answers{
	NotSupported: ensure.Answer{
		Reason: coderv1alpha1.ReasonNotSupported, After: retryLicense,
		Format: "this Coder has no workspace proxies: it is the build without licensed features, or too old; use Coder's own image (%s)",
	},
	Unreachable: ensure.Answer{Reason: coderv1alpha1.ReasonUnreachable, After: retryAnswer},
	RateLimited: ensure.Fewer(coderv1alpha1.ReasonRateLimited, retrySoon, retrySoon),
	NotEntitled: ensure.Answer{
		Reason: coderv1alpha1.ReasonNotEntitled, After: retryLicense,
		Format: "the license of Coder does not allow workspace proxies; add one that does (%s)",
	},
	Unauthorized: ensure.Answer{
		Reason: coderv1alpha1.ReasonTokenRefused, After: retryFailed,
		Format: "Coder does not accept the token with which the proxy is registered (%s)",
	},
	Forbidden: ensure.Answer{
		Reason: coderv1alpha1.ReasonForbidden, After: retryFailed,
		Format: "the token with which the proxy is registered is not one of a user with the role owner (%s)",
	},
	Other: ensure.Answer{Reason: coderv1alpha1.ReasonCoderRefused, After: retryFailed},
}

// answered converts a failed request to Coder into a stop.
func answered(err error) error {
	err = answers.Stop(err)
	if stop := ensure.Stopped(err); stop != nil {
		stop.Message = Stable(stop.Message)
	}
	return err
}

// ownAddress matches the local address of a connection, which differs each time.
var ownAddress = regexp.MustCompile(`\S+:\d+->`)

// Stable returns the text of a connection error without parts that differ each time.
func Stable(text string) string { return ownAddress.ReplaceAllString(text, "") }
