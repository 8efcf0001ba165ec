package keys

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// Ensure makes the Secret contain the key that the spec asks for, which makeKey creates. It is
// level-triggered. A returned
// error comes from Kubernetes and is retried with backoff. All other failures are in the Result.
// Ensure does not delete replaced keys: see Retire.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	err := p.ensure(ctx)
	if ensure.Stopped(err) != nil {
		err = nil
	}
	return p.result, err
}

func (p *pass) ensure(ctx context.Context) error {
	p.result.Entitled = framework.ConditionUnknown(typeEntitled, coderv1alpha1.ReasonWaiting, "waiting for access to Coder")
	p.result.Key = framework.ConditionUnknown(typeKey, coderv1alpha1.ReasonWaiting, "waiting for access to Coder")
	secret, err := p.secrets.Get(ctx, resources.KeySecretName(p.cr))
	if err != nil {
		return err
	}
	if secret != nil && !p.secrets.Mine(secret) {
		taken := p.secrets.Taken("Secret", secret, retryFailed, "choose another spec.key.secretName (not possible once a key was created)")
		p.result.Secret = framework.ConditionFalse(typeSecret, taken.Reason, taken.Message)
		p.result.Stalled = taken.State == ensure.Failed
		return p.stop(framework.ConditionUnknown(typeKey, taken.Reason, "waiting for the Secret: "+taken.Message), taken.After)
	}
	if secret != nil {
		p.stored = readStored(secret, resources.KeySecretKey(p.cr))
	}
	p.report()
	if refused := p.req.Refused; refused != nil {
		return p.refuse(refused.Reason, refused.Message)
	}
	switch cp := p.req.ControlPlane; {
	case cp == nil:
		return p.unavailable(ensure.Unavailable(coderv1alpha1.ReasonControlPlaneUnavailable, retryFailed,
			"CoderControlPlane %q does not exist in this namespace", controlPlaneName(p.cr)))
	case cp.DeletionTimestamp != nil:
		return p.unavailable(ensure.Unavailable(coderv1alpha1.ReasonControlPlaneUnavailable, retryFailed,
			"CoderControlPlane %q is being deleted", cp.Name))
	}
	now := p.Clock.Now()
	known, ok := p.heard.Get(p.cr.UID, p.digest(), now)
	old := known.Value.Key.Status == metav1.ConditionTrue && p.req.MaxAge > 0 && now.Sub(known.At) >= p.req.MaxAge
	if ok && !old {
		version := p.result.SecretVersion
		p.result = known.Value
		p.result.Events, p.result.SecretVersion = nil, version
		p.result.RequeueAfter = known.Until.Sub(now)
		return nil
	}
	api, err := p.Connect(ctx, p.req.ControlPlane)
	switch {
	case ensure.IsUnavailable(err):
		return p.unavailable(ensure.Stopped(err))
	case err == nil:
		err = p.ask(ctx, api)
	}
	if err == nil || ensure.Stopped(err) != nil {
		now = p.Clock.Now()
		until := now.Add(cmp.Or(p.result.RequeueAfter, trust))
		p.heard.Put(p.cr.UID, ensure.Entry[Result]{Value: p.result, Digest: p.digest(), At: now, Until: until})
	}
	return err
}

func (p *pass) report() {
	name := resources.KeySecretName(p.cr)
	p.result.Record, p.result.SecretRef = nil, nil
	if p.stored == nil || p.stored.text == "" {
		p.result.Secret = framework.ConditionFalse(typeSecret, coderv1alpha1.ReasonWaiting, fmt.Sprintf("Secret %q contains no key yet", name))
		return
	}
	p.result.Secret = framework.ConditionTrue(typeSecret, coderv1alpha1.ReasonSecretReady, fmt.Sprintf("Secret %q contains the key", name))
	p.result.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: name, Key: p.stored.field}
	p.result.SecretVersion = p.stored.secret.ResourceVersion
	if p.stored.record != nil {
		record := *p.stored.record
		p.result.Record = &record
	}
}

// digest identifies everything on which Coder's answer depends.
func (p *pass) digest() ensure.Digest {
	cp := p.req.ControlPlane
	parts := []any{
		cp.UID, cp.Status.URL, cp.Status.OperatorAccessReady, cp.Status.OperatorTokenSecretRef,
		cp.Status.OperatorTokenExpiresAt, cp.Status.ExternalProvisionerDaemonsEntitlement, cp.Status.LicenseLastAppliedHash,
		cp.Spec.OperatorAccess.Disabled, cp.DeletionTimestamp, p.cr.Status.ControlPlaneRefName,
		resources.OrganizationName(p.cr), resources.TagsHash(p.cr.Spec.Tags), p.cr.Spec.Key, resources.KeyName(p.cr),
	}
	if s := p.stored; s != nil {
		parts = append(parts, sha256.Sum256([]byte(s.text)), s.field, s.record, s.intent, s.secret.UID)
	}
	// These are plain values, so encoding them cannot fail.
	raw, _ := json.Marshal(parts)
	return sha256.Sum256(raw)
}

func controlPlaneName(cr *coderv1alpha1.CoderProvisioner) string {
	return ptr.Deref(cr.Spec.ControlPlaneRef, coderv1alpha1.ControlPlaneReference{}).Name
}

// ask compares the key in Coder with the wanted one, and creates a key if that is necessary and
// allowed.
func (p *pass) ask(ctx context.Context, api *coderd.Client) error {
	if err := p.silent(); err != nil {
		return p.answered(err)
	}
	allowed, err := p.entitled(ctx, api)
	if err != nil {
		return err
	}
	org, err := api.OrganizationByName(ctx, resources.OrganizationName(p.cr))
	if coderd.IsNotFound(err) && !coderd.IsNotSupported(err) {
		remedy := "correct spec.organizationName"
		if p.cr.Status.ControlPlaneRefName != "" {
			remedy = "create another CoderProvisioner with the right spec.organizationName, which cannot change here any more, and delete this one"
		}
		return p.refuse(coderv1alpha1.ReasonOrganizationNotFound, fmt.Sprintf(
			"Coder has no organization %q; create it in Coder, or %s", resources.OrganizationName(p.cr), remedy))
	}
	if err != nil {
		return p.answered(err)
	}
	p.result.OrganizationID, p.result.OrganizationName = org.ID.String(), org.Name
	known, err := p.check(ctx, api)
	if err != nil {
		return p.answered(err)
	}
	w := wanted{
		org: org, names: resources.KeyNames(p.cr),
		tags: p.cr.Spec.Tags, tagsHash: resources.TagsHash(p.cr.Spec.Tags),
	}
	if after := p.cr.Spec.Key.RotateAfter; after != nil {
		w.rotateAfter = after.Duration
	}
	v := decide(p.stored, known, w, p.Clock.Now())
	switch {
	case v.why != "" && !allowed:
		message := fmt.Sprintf("a new key is needed because %s, but no license of Coder allows it", v.why)
		if known != nil {
			message += "; the pods keep the current key"
		}
		return p.refuse(coderv1alpha1.ReasonNotEntitled, message)
	case v.why != "":
		err = p.makeKey(ctx, api, w, v.why)
	default:
		err = p.keep(ctx, v.adopt)
	}
	if err != nil {
		return err
	}
	p.report()
	r := p.stored.record
	p.result.Key = framework.ConditionTrue(typeKey, coderv1alpha1.ReasonProvisionerKeyReady,
		fmt.Sprintf("Coder accepts provisioner key %q of organization %q", r.Name, w.org.Name))
	p.result.RequeueAfter = trust
	if made, dated := r.made(); dated && w.rotateAfter > 0 {
		p.result.RequeueAfter = ensure.Sooner(p.result.RequeueAfter, max(made.Add(w.rotateAfter).Sub(p.Clock.Now()), time.Second))
	}
	return nil
}

// entitled reports whether the licenses allow external provisioners. Coder answers this request for
// any user.
func (p *pass) entitled(ctx context.Context, api *coderd.Client) (bool, error) {
	e, err := api.Entitlements(ctx)
	if err == nil {
		if e.Of(coderd.FeatureExternalProvisioners).Allows() {
			p.result.Entitled = framework.ConditionTrue(typeEntitled, coderv1alpha1.ReasonEntitled, "the licenses of Coder allow external provisioners")
			return true, nil
		}
		p.result.Entitled = framework.ConditionFalse(typeEntitled, coderv1alpha1.ReasonNotEntitled,
			"no license of Coder allows external provisioners, so no new key is created; add a license in Coder or in spec.licenseSecretRef of the control plane")
		return false, nil
	}
	stopped := p.answered(err)
	switch reason := p.result.Key.Reason; {
	case ensure.Stopped(stopped) == nil:
	case coderd.IsNotSupported(err):
		p.result.Entitled = framework.ConditionFalse(typeEntitled, reason, "this Coder supports neither licenses nor external provisioners: "+p.result.Key.Message)
	case coderd.IsForbidden(err):
		p.result.Entitled = framework.ConditionUnknown(typeEntitled, reason, p.result.Key.Message)
	default:
		p.result.Entitled = framework.ConditionUnknown(typeEntitled, coderv1alpha1.ReasonEntitlementsQueryFailed, p.result.Key.Message)
	}
	return false, stopped
}

// check asks Coder for the key that the Secret contains. It returns nil if Coder does not know that
// key. This works without a license.
func (p *pass) check(ctx context.Context, api *coderd.Client) (*coderd.ProvisionerKey, error) {
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
