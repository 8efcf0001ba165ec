package licensing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
)

// verdict is the result of comparing the requested license with Coder.
type verdict struct {
	// unsupported reports that this Coder supports no licenses.
	unsupported bool
	// held reports that Coder has the license, since is when it was uploaded, and ours reports that
	// the operator uploaded it.
	held  bool
	since time.Time
	ours  bool
	// refused is Coder's message if it does not accept the license.
	refused string
	// waitsForTerm reports that the license's term begins later. keepsOld reports that the
	// operator's previous licenses stay until then, or while the new one is refused.
	waitsForTerm bool
	keepsOld     bool
}

// ensureHeld reconciles the licenses in Coder with the request. A Stop is a problem with the license. An
// error means that Coder or Kubernetes failed. After a Stop the entitlements are still read.
func (p *pass) ensureHeld(ctx context.Context) (*ensure.Stop, error) {
	p.text = strings.TrimSpace(p.req.License)
	if p.req.Unread || p.text == "" && len(p.own) == 0 {
		return nil, nil
	}
	if p.text != "" {
		claims, err := coderd.ParseLicense(p.text)
		if err != nil {
			return ensure.Fails(coderv1alpha1.ReasonInvalidLicense, 0, "the value of spec.licenseSecretRef is %v", err), nil
		}
		p.claims, p.result.ExpiresAt = claims, claims.ExpiresAt
	}
	known, ok := p.held.Get(p.req.Key, p.digest(), p.now)
	if !ok {
		v, err := p.bring(ctx)
		if coderd.IsUnauthorized(err) || coderd.IsForbidden(err) {
			return ensure.Stopped(answers.Stop(err)), nil
		}
		if err != nil {
			return nil, answers.Stop(err)
		}
		until := p.now.Add(DefaultRest)
		if v.waitsForTerm && p.claims.NotBefore.Before(until) {
			until = *p.claims.NotBefore
		}
		known = ensure.Entry[verdict]{Value: v, Digest: p.digest(), Until: until}
		p.held.Put(p.req.Key, known)
	}
	p.wake(known.Until)
	return p.judge(known.Value), nil
}

// digest identifies everything on which the licenses in Coder depend.
func (p *pass) digest() ensure.Digest {
	return ensure.DigestOf(append([]string{p.req.Instance, p.text}, p.own...)...)
}

// bring uploads the license to Coder, and removes the operator's licenses that it replaces.
func (p *pass) bring(ctx context.Context) (verdict, error) {
	held, err := p.list(ctx)
	if coderd.IsNotSupported(err) {
		return verdict{unsupported: true}, nil
	}
	if err != nil {
		return verdict{}, err
	}
	var v verdict
	if p.text != "" {
		if v, err = p.add(ctx, held); err != nil {
			return verdict{}, err
		}
	}
	v.waitsForTerm = v.held && p.claims.NotBefore != nil && p.now.Before(*p.claims.NotBefore)
	old := slices.DeleteFunc(slices.Clone(held), func(l coderd.License) bool { return p.isWanted(l) || !slices.Contains(p.own, identity(l.Claims)) })
	if v.refused != "" || v.waitsForTerm {
		v.keepsOld = len(old) > 0
	} else if err := p.remove(ctx, old); err != nil {
		return verdict{}, err
	} else {
		old = nil
	}
	p.own = slices.DeleteFunc(p.own, func(id string) bool {
		wanted := p.text != "" && id == p.identity() && (v.ours || v.refused != "")
		return !wanted && !slices.ContainsFunc(old, func(l coderd.License) bool { return identity(l.Claims) == id })
	})
	return v, nil
}

func (p *pass) list(ctx context.Context) ([]coderd.License, error) {
	coder, err := p.coder(ctx)
	if err != nil {
		return nil, err
	}
	return coder.Licenses(ctx)
}

func (p *pass) add(ctx context.Context, held []coderd.License) (verdict, error) {
	recorded := slices.Contains(p.own, p.identity())
	if v, ok := p.find(held); ok {
		v.ours = recorded
		return v, nil
	}
	if !recorded {
		// The license is recorded first, so that its owner is known if the pass is interrupted
		// after the upload.
		own := append(slices.Clone(p.own), p.identity())
		if err := p.req.Record(ctx, own); err != nil {
			return verdict{}, err
		}
		p.own = own
	}
	p.change()
	added, err := p.connected.AddLicense(ctx, p.text)
	switch {
	case coderd.IsInvalid(err):
		return verdict{refused: words(err)}, nil
	case coderd.IsConflict(err):
		// The license was added after the list was read: by an earlier attempt of ours that Coder
		// completed late, which is in the record, or by someone else.
		again, errList := p.list(ctx)
		if errList != nil {
			return verdict{}, errList
		}
		v, ok := p.find(again)
		if !ok {
			return verdict{}, err
		}
		v.ours = recorded
		return v, nil
	case err != nil:
		return verdict{}, err
	}
	p.result.Applied = true
	message := "added the license of spec.licenseSecretRef to Coder"
	if expires := p.claims.ExpiresAt; expires != nil {
		message += ", which expires on " + expires.UTC().Format(time.DateOnly)
	}
	p.result.Events.Normal(coderv1alpha1.ReasonLicenseAdded, message)
	return verdict{held: true, ours: true, since: added.UploadedAt}, nil
}

// change is called before a license is added or removed. That may succeed or fail.
func (p *pass) change() {
	p.changed = true
	p.Forget(p.req.Key)
}

func (p *pass) find(held []coderd.License) (verdict, bool) {
	for _, l := range held {
		if p.isWanted(l) {
			return verdict{held: true, since: l.UploadedAt}, true
		}
	}
	return verdict{}, false
}

func (p *pass) remove(ctx context.Context, old []coderd.License) error {
	why := "because spec.licenseSecretRef has another license"
	if p.text == "" {
		why = "because spec.licenseSecretRef is not set"
	}
	for _, l := range old {
		p.change()
		err := p.connected.DeleteLicense(ctx, l.ID)
		if coderd.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		p.result.Events.Normal(coderv1alpha1.ReasonLicenseRemoved,
			fmt.Sprintf("removed license %d, which the operator had added, from Coder, %s", l.ID, why))
	}
	return nil
}

func (p *pass) isWanted(l coderd.License) bool { return p.text != "" && l.Is(p.claims) }

func (p *pass) identity() string { return identity(p.claims) }

func identity(claims coderd.LicenseClaims) string { return claims.Identity().String() }

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// words returns Coder's message and details, without the name of the failed operation.
func words(err error) string {
	own, ok := errors.AsType[*coderd.Error](err)
	if !ok {
		return err.Error()
	}
	said := strings.TrimRight(own.Message, ".!")
	if own.Detail != "" {
		said += ": " + strings.TrimRight(own.Detail, ".")
	}
	for _, f := range own.Fields {
		said += "; " + f.Field + ": " + strings.TrimRight(f.Detail, ".")
	}
	return said
}

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
