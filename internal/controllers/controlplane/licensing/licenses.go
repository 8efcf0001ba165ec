package licensing

import (
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
