package keys

import (
	"context"
	"errors"
	"fmt"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// ask compares the key in Coder with the wanted one, and creates a key if that is necessary and
// allowed.
func (p *pass) ask(ctx context.Context, api API) error {
	if err := p.silent(); err != nil {
		return p.answered(err)
	}
	allowed, err := p.entitled(ctx, api)
	if err != nil {
		return err
	}
	org, err := api.OrganizationByName(ctx, resources.OrganizationName(p.cr))
	if coderd.IsNotFound(err) && !coderd.IsNotSupported(err) {
		return p.refuse(coderv1alpha1.ReasonOrganizationNotFound, fmt.Sprintf(
			"Coder has no organization %q; make it there, or correct spec.organizationName", resources.OrganizationName(p.cr)))
	}
	if err != nil {
		return p.answered(err)
	}
	p.result.OrganizationID, p.result.OrganizationName = org.ID.String(), org.Name
	known, err := p.check(ctx, api)
	if err != nil {
		return p.answered(err)
	}
	w := p.wanted(org)
	v := decide(p.stored, known, w, p.now())
	switch {
	case v.why != "" && !allowed:
		return p.notAllowed(v.why, known != nil)
	case v.why != "":
		err = p.makeKey(ctx, api, w, v.why)
	default:
		err = p.keep(ctx, v.adopt)
	}
	if err != nil {
		return err
	}
	p.report()
	p.settle(w)
	return nil
}

func (p *pass) wanted(org coderd.Organization) wanted {
	w := wanted{
		controlPlane: p.req.ControlPlane.Name, org: org, names: resources.KeyNames(p.cr),
		tags: p.cr.Spec.Tags, tagsHash: resources.TagsHash(p.cr.Spec.Tags),
	}
	if after := p.cr.Spec.Key.RotateAfter; after != nil {
		w.rotateAfter = after.Duration
	}
	return w
}

// entitled reports whether the licenses allow external provisioners. Coder answers this request for
// any user.
func (p *pass) entitled(ctx context.Context, api API) (bool, error) {
	e, err := api.Entitlements(ctx)
	if err == nil {
		if e.Of(coderd.FeatureExternalProvisioners).Allows() {
			p.result.Entitled = holds(coderv1alpha1.ReasonEntitled, "the licenses of Coder allow external provisioners")
			return true, nil
		}
		p.result.Entitled = fails(coderv1alpha1.ReasonNotEntitled,
			"no license of Coder allows external provisioners, so no new key is made; add a license in Coder or in spec.licenseSecretRef of the control plane")
		return false, nil
	}
	stopped := p.answered(err)
	switch reason := p.result.Key.Reason; {
	case !isStop(stopped):
	case coderd.IsNotSupported(err):
		p.result.Entitled = fails(reason, "this Coder takes no licenses, and has no external provisioners: "+p.result.Key.Message)
	case coderd.IsForbidden(err):
		p.result.Entitled = unknown(reason, p.result.Key.Message)
	default:
		p.result.Entitled = unknown(coderv1alpha1.ReasonEntitlementsQueryFailed, p.result.Key.Message)
	}
	return false, stopped
}

// check asks Coder for the key that the Secret contains. It returns nil if Coder does not know that
// key. This works without a license.
func (p *pass) check(ctx context.Context, api API) (*coderd.ProvisionerKey, error) {
	if p.stored == nil || p.stored.text == "" {
		return nil, nil
	}
	key, err := api.CheckProvisionerKey(ctx, p.stored.text)
	switch {
	case coderd.IsUnauthorized(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &key, nil
}

// keep keeps the existing key.
func (p *pass) keep(ctx context.Context, adopt *Record) error {
	s := p.stored
	changed := false
	if s.intent != nil {
		if err := p.resolveIntent(ctx, s); err != nil {
			return err
		}
		s.intent, changed = nil, true
	}
	if adopt != nil {
		old := s.record
		s.record, changed = adopt, true
		for _, before := range []*Record{old, statusRecord(p.cr)} {
			if before != nil {
				s.replace(before)
			}
		}
	}
	if !changed {
		return nil
	}
	return p.save(ctx, s)
}

// settle reports that the key matches the spec.
func (p *pass) settle(w wanted) {
	r := p.stored.record
	p.result.Key = holds(coderv1alpha1.ReasonProvisionerKeyReady,
		fmt.Sprintf("Coder knows provisioner key %q of organization %q", r.Name, w.org.Name))
	p.result.RequeueAfter = p.trust()
	if age, dated := r.age(p.now()); dated && w.rotateAfter > age {
		p.result.RequeueAfter = steps.Sooner(p.result.RequeueAfter, w.rotateAfter-age)
	}
}

func (p *pass) notAllowed(why string, works bool) error {
	message := fmt.Sprintf("a new key is needed, because %s, and no license of Coder allows it", why)
	if works {
		message += "; the pods keep the one that they have"
	}
	return p.refuse(coderv1alpha1.ReasonNotEntitled, message)
}

// refuse ends a pass with a problem that a user must fix.
func (p *pass) refuse(reason, message string) error {
	p.result.Key = fails(reason, message)
	p.result.Stalled = true
	p.result.RequeueAfter = retryFailed
	return &stop{message}
}

func isUnavailable(err error) (*Unavailable, bool) {
	var why *Unavailable
	return why, errors.As(err, &why)
}
