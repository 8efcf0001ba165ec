package keys

import (
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// answered reports a failed request to Coder as the state of the key, and ends the pass. An error
// that does not come from Coder is returned unchanged.
func (p *pass) answered(err error) error {
	reason, message, after, ok := p.judge(err)
	if !ok {
		return err
	}
	p.result.Key = fails(reason, message)
	if reason == coderv1alpha1.ReasonUnreachable && p.result.SecretRef != nil {
		p.result.Key = unknown(reason, "the key in the Secret stays in use, and Coder gave no answer about it: "+message)
	}
	p.result.Stalled = reason == coderv1alpha1.ReasonNotSupported || reason == coderv1alpha1.ReasonNotEntitled ||
		reason == coderv1alpha1.ReasonForbidden
	p.result.RequeueAfter = after
	return &stop{message}
}

// judge returns the reason and message for a failed request, and when to retry it.
func (p *pass) judge(err error) (reason, message string, after time.Duration, ok bool) {
	var answer *coderd.Error
	if !errors.As(err, &answer) {
		return "", "", 0, false
	}
	message = answer.Error()
	switch {
	case coderd.IsNotSupported(err):
		return coderv1alpha1.ReasonNotSupported, message, p.trust(), true
	case coderd.IsUnreachable(err):
		return coderv1alpha1.ReasonUnreachable, message, retrySoon, true
	case coderd.IsRateLimited(err):
		after = max(answer.RetryAfter, time.Second)
		if answer.RetryAfter == 0 {
			after = retrySoon
		}
		p.quiet(after)
		return coderv1alpha1.ReasonRateLimited, "Coder asks for fewer requests: " + message, after, true
	case coderd.IsUnauthorized(err):
		return coderv1alpha1.ReasonTokenRefused, "Coder does not accept the operator's token: " + message, 2 * retrySoon, true
	case coderd.IsNotEntitled(err):
		return coderv1alpha1.ReasonNotEntitled, message, retryFailed, true
	case coderd.IsForbidden(err):
		return coderv1alpha1.ReasonForbidden, message, retryFailed, true
	}
	return coderv1alpha1.ReasonProvisionerKeyFailed, message, retryFailed, true
}

// quiet records that Coder rejects further requests for a while.
func (p *pass) quiet(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard == nil {
		p.heard = map[types.UID]hearing{}
	}
	h := p.heard[p.cr.UID]
	h.quietUntil = p.now().Add(after)
	p.heard[p.cr.UID] = h
}

// mustBeQuiet returns for how long Coder rejects further requests.
func (p *pass) mustBeQuiet() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard[p.cr.UID].quietUntil.Sub(p.now())
}

// silent returns an error if Coder asked for no further requests at this time.
func (p *pass) silent() error {
	left := p.mustBeQuiet()
	if left <= 0 {
		return nil
	}
	return &coderd.Error{
		Op: "asking Coder", StatusCode: http.StatusTooManyRequests, RetryAfter: left,
		Message: "it wants no request before the time that it gave is over",
	}
}
