package keys

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/ownsecret"
)

// hearing is the cached answer of Coder about one provisioner.
type hearing struct {
	// subject identifies everything that the answer depends on.
	subject   [sha256.Size]byte
	at, until time.Time
	result    Result
	// quietUntil is when Coder may be called again after it asked for fewer requests.
	quietUntil time.Time
}

// Ensure makes the Secret contain the key that the spec asks for. It is level-triggered. A returned
// error comes from Kubernetes and is retried with backoff. All other failures are in the Result.
// Ensure does not delete replaced keys: see Retire.
func (m *Manager) Ensure(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	err := p.ensure(ctx)
	if isStop(err) {
		err = nil
	}
	return p.result, err
}

func (p *pass) ensure(ctx context.Context) error {
	if err := p.load(ctx); err != nil {
		return err
	}
	if p.req.Refused != nil {
		p.result.Key, p.result.Stalled, p.result.RequeueAfter = *p.req.Refused, true, retryFailed
		return &stop{p.req.Refused.Message}
	}
	switch cp := p.req.ControlPlane; {
	case cp == nil:
		return p.unavailable(&Unavailable{
			Reason:  coderv1alpha1.ReasonControlPlaneUnavailable,
			Message: fmt.Sprintf("CoderControlPlane %q does not exist in this namespace", controlPlaneName(p.cr)),
		})
	case cp.DeletionTimestamp != nil:
		return p.unavailable(&Unavailable{
			Reason: coderv1alpha1.ReasonControlPlaneUnavailable, Message: fmt.Sprintf("CoderControlPlane %q is being deleted", cp.Name),
		})
	}
	if p.recall() {
		return nil
	}
	api, err := p.Connect(ctx, p.req.ControlPlane)
	var missing *Unavailable
	switch {
	case errors.As(err, &missing):
		return p.unavailable(missing)
	case err == nil:
		err = p.ask(ctx, api)
	}
	if err == nil || isStop(err) {
		p.remember()
	}
	return err
}

// load reads the Secret. If the spec now names another Secret or another key of the Secret, load
// moves the provisioner key there.
func (p *pass) load(ctx context.Context) error {
	p.result.Entitled = unknown(coderv1alpha1.ReasonWaiting, "waits until Coder can be asked")
	p.result.Key = unknown(coderv1alpha1.ReasonWaiting, "waits until Coder can be asked")
	secret, err := p.secrets.Get(ctx, resources.KeySecretName(p.cr))
	if err != nil {
		return err
	}
	if secret != nil && !p.secrets.Mine(secret) {
		p.result.Secret = p.notOwned(secret)
		p.result.Key = unknown(p.result.Secret.Reason, "waits for the Secret: "+p.result.Secret.Message)
		p.result.Stalled = p.result.Secret.Reason == coderv1alpha1.ReasonNotOwned
		p.result.RequeueAfter = retryFailed
		if !p.result.Stalled {
			p.result.RequeueAfter = retrySoon
		}
		return &stop{p.result.Secret.Message}
	}
	if secret != nil {
		p.stored = readStored(secret, resources.KeySecretKey(p.cr))
	}
	if err := p.moveSecret(ctx); err != nil {
		return err
	}
	if err := p.moveField(ctx); err != nil {
		return err
	}
	p.report()
	return nil
}

// moveSecret copies the key from a Secret with an earlier name. That Secret is kept as long as a
// pod may read it.
func (p *pass) moveSecret(ctx context.Context) error {
	if p.stored != nil && (p.stored.text != "" || p.stored.intent != nil) {
		return nil
	}
	others, err := p.others(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(others, func(s *stored) bool { return s.text != "" && s.record != nil })
	if i < 0 {
		return nil
	}
	if err := p.makeStored(); err != nil {
		return err
	}
	old := others[i]
	p.stored.text, p.stored.record, p.stored.intent, p.stored.replaced = old.text, old.record, old.intent, old.replaced
	p.stored.put()
	return p.save(ctx, p.stored)
}

// moveField writes the key under spec.key.secretKey. The earlier entry is kept as long as a pod may
// read it.
func (p *pass) moveField(ctx context.Context) error {
	field := resources.KeySecretKey(p.cr)
	s := p.stored
	if s == nil || s.text == "" || s.field == field {
		return nil
	}
	s.oldFields = slices.DeleteFunc(append(s.oldFields, s.field), func(old string) bool { return old == field })
	s.field = field
	s.put()
	return p.save(ctx, s)
}

// put writes the key to the Secret's data.
func (s *stored) put() {
	ownsecret.Put(s.secret, s.field, s.text)
}

// makeStored prepares a new Secret if there is none.
func (p *pass) makeStored() error {
	if p.stored != nil {
		p.stored.field = resources.KeySecretKey(p.cr)
		return nil
	}
	secret, err := p.secrets.New(resources.KeySecretName(p.cr))
	if err != nil {
		return err
	}
	p.stored = readStored(secret, resources.KeySecretKey(p.cr))
	return nil
}

// report sets the part of the result that describes the Secret.
func (p *pass) report() {
	name := resources.KeySecretName(p.cr)
	p.result.Record, p.result.SecretRef = nil, nil
	if p.stored == nil || p.stored.text == "" {
		p.result.Secret = fails(coderv1alpha1.ReasonWaiting, fmt.Sprintf("Secret %q holds no key yet", name))
		return
	}
	p.result.Secret = holds(coderv1alpha1.ReasonSecretReady, fmt.Sprintf("Secret %q holds the key", name))
	p.result.SecretRef = &coderv1alpha1.ProvisionerKeySecretReference{Name: name, Key: p.stored.field}
	p.result.SecretVersion = p.stored.secret.ResourceVersion
	if p.stored.record != nil {
		record := *p.stored.record
		p.result.Record = &record
	}
}

// unavailable ends a pass in which Coder cannot be called. The existing key stays in use.
func (p *pass) unavailable(why *Unavailable) error {
	p.Forget(p.cr.UID)
	finding := fails(why.Reason, why.Message)
	p.result.ControlPlane = &finding
	p.result.Entitled = unknown(why.Reason, "Coder cannot be asked: "+why.Message)
	p.result.Key = unknown(why.Reason, "no key can be made: "+why.Message)
	if p.result.SecretRef != nil {
		p.result.Key.Message = "the key in the Secret stays in use, and Coder cannot be asked about it: " + why.Message
	}
	p.result.RequeueAfter = retryFailed
	return &stop{why.Message}
}

// subject returns a hash of everything on which Coder's answer depends.
func (p *pass) subject() [sha256.Size]byte {
	cp := p.req.ControlPlane
	parts := []any{
		cp.UID, cp.Status.URL, cp.Status.OperatorAccessReady, cp.Status.OperatorTokenSecretRef,
		cp.Status.OperatorTokenExpiresAt, cp.Status.ExternalProvisionerDaemonsEntitlement, cp.Status.LicenseLastAppliedHash,
		cp.Spec.OperatorAccess.Disabled, cp.DeletionTimestamp,
		resources.OrganizationName(p.cr), resources.TagsHash(p.cr.Spec.Tags), p.cr.Spec.Key, resources.KeyName(p.cr),
	}
	if s := p.stored; s != nil {
		parts = append(parts, sha256.Sum256([]byte(s.text)), s.field, s.record, s.intent, s.secret.UID)
	}
	// These are plain values, so encoding them cannot fail.
	raw, _ := json.Marshal(parts)
	return sha256.Sum256(raw)
}

// recall uses the cached answer of Coder as the result, and reports whether it is still valid.
func (p *pass) recall() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.heard[p.cr.UID]
	now := p.now()
	switch {
	case !ok || h.subject != p.subject(), !now.Before(h.until):
		return false
	case h.result.Key.Status == metav1.ConditionTrue && p.req.MaxAge > 0 && now.Sub(h.at) >= p.req.MaxAge:
		return false
	}
	version := p.result.SecretVersion
	p.result = h.result
	p.result.Events, p.result.SecretVersion = nil, version
	p.result.RequeueAfter = h.until.Sub(now)
	return true
}

func (p *pass) remember() {
	after := p.result.RequeueAfter
	if after == 0 {
		after = p.trust()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard == nil {
		p.heard = map[types.UID]hearing{}
	}
	now := p.now()
	h := p.heard[p.cr.UID]
	h.subject, h.at, h.until, h.result = p.subject(), now, now.Add(after), p.result
	p.heard[p.cr.UID] = h
}

func controlPlaneName(cr *coderv1alpha1.CoderProvisioner) string {
	if cr.Spec.ControlPlaneRef == nil {
		return ""
	}
	return cr.Spec.ControlPlaneRef.Name
}
