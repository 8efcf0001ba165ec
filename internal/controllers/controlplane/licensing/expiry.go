package licensing

import (
	"cmp"
	"fmt"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

const (
	// notice is how long before its expiry a license is reported as expiring. trialNotice is the
	// same for trial licenses, which have a short term.
	notice      = 30 * 24 * time.Hour
	trialNotice = 7 * 24 * time.Hour
)

// judge returns the current state of the license. It runs in every pass, because the license may
// expire while the cached verdict stays the same.
func (p *pass) judge(v verdict) *ensure.Stop {
	switch {
	case v.unsupported:
		message := "this Coder does not support licenses: it is the AGPL build, or too old; "
		if p.text == "" {
			message += "the operator removes the license that it added as soon as Coder supports licenses again"
		} else {
			message += "use Coder's official image, or remove spec.licenseSecretRef"
		}
		return ensure.Fails(coderv1alpha1.ReasonNotSupported, 0, "%s", message)
	case p.text == "":
		return nil
	case v.refused != "":
		message := "Coder does not accept the license of spec.licenseSecretRef: " + v.refused
		if passed(p.end(), p.now) {
			message += "; it has expired (status.licenseExpiresAt)"
		}
		return ensure.Fails(coderv1alpha1.ReasonInvalidLicense, 0, "%s; put a valid one into the Secret%s", message, v.keeps())
	}
	since := v.since
	p.result.AppliedAt, p.result.Hash = &since, hash(p.text)
	// The state of the term schedules its next change.
	whose := ""
	if !v.ours {
		whose = "; the operator did not add it, so it stays in Coder when spec.licenseSecretRef changes"
	}
	const renew = "; put a new license into the Secret of spec.licenseSecretRef"
	expires, ends := p.claims.ExpiresAt, p.end()
	days := notice
	if p.claims.Trial {
		days = trialNotice
	}
	switch {
	case passed(ends, p.now):
		return ensure.Fails(coderv1alpha1.ReasonLicenseExpired, 0, "%s",
			"the license in Coder has expired (status.licenseExpiresAt), and its features no longer work"+renew+whose)
	case passed(expires, p.now):
		p.result.Ready(coderv1alpha1.ReasonLicenseInGracePeriod,
			"the license in Coder has expired (status.licenseExpiresAt); its features work only until the end of the grace period"+renew+whose)
		p.wake(*ends)
	case expires != nil && !p.now.Before(expires.Add(-days)):
		p.result.Ready(coderv1alpha1.ReasonLicenseExpiring, fmt.Sprintf(
			"Coder has the license, which expires within %d days (status.licenseExpiresAt)%s%s", int(days/(24*time.Hour)), renew, whose))
		p.wake(*expires)
	case v.waitsForTerm:
		p.result.Ready(coderv1alpha1.ReasonApplied, "Coder has the license, which becomes valid later"+v.keeps()+whose)
		p.wake(*p.claims.NotBefore)
	default:
		p.result.Ready(coderv1alpha1.ReasonApplied, "Coder has the license of spec.licenseSecretRef"+whose)
		if expires != nil {
			p.wake(expires.Add(-days))
		}
	}
	return nil
}

func (v verdict) keeps() string {
	if v.keepsOld {
		return "; the previous license stays until then"
	}
	return ""
}

// end returns the time after which the license no longer applies: the end of the grace period, or
// else the expiry.
func (p *pass) end() *time.Time {
	return cmp.Or(p.claims.GraceEndsAt, p.claims.ExpiresAt)
}

// wake schedules the next check for the given time, at the earliest in one second.
func (p *pass) wake(at time.Time) { p.requeue(max(at.Sub(p.now), time.Second)) }

func passed(at *time.Time, now time.Time) bool { return at != nil && !now.Before(*at) }
