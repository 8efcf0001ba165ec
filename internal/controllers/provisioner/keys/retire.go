package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// Retire deletes the replaced keys in Coder, once no pod uses them. Result.Left contains the keys that
// must still be deleted.
func (m *Manager) Retire(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	secret, err := p.mine(ctx)
	if err != nil || secret == nil || secret.text == "" || secret.record == nil || len(secret.replaced) == 0 {
		return p.result, err
	}
	usage, err := p.req.Usage(ctx)
	if err != nil {
		return p.result, err
	}
	if !usage.free(secret.record.ID) {
		p.result.Left, p.result.RequeueAfter = secret.replaced, retrySoon
		return p.result, nil
	}
	left, err := p.deleteKeys(ctx, secret.replaced)
	if err != nil || len(left) == len(secret.replaced) {
		return p.result, err
	}
	secret.replaced = left
	err = p.save(ctx, secret)
	return p.result, err
}

// Release deletes everything that the operator created, once no pod uses it, except for a key that
// was handed over. It is for daemons whose credentials now come from the spec.
func (m *Manager) Release(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	secret, err := p.mine(ctx)
	if err != nil {
		return p.result, err
	}
	if secret == nil && statusRecord(p.cr) == nil {
		p.result.Forgotten = true
		return p.result, nil
	}
	if given := resources.KeySource(p.cr, nil); given != nil && p.cr.Spec.PSKSecretRef == nil && secret != nil && given.Name == secret.secret.Name {
		p.result.Secret = framework.ConditionFalse(typeSecret, coderv1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"Secret %q of spec.key.secretRef contains a key that the operator created; remove spec.key.secretRef, or put your own key into another Secret",
			given.Name))
		return p.result, nil
	}
	usage, err := p.req.Usage(ctx)
	if err != nil {
		return p.result, err
	}
	if !usage.free("") {
		p.result.RequeueAfter = retrySoon
		return p.result, nil
	}
	done, err := p.withdraw(ctx, secret)
	if err != nil || !done {
		return p.result, err
	}
	p.result.Forgotten = true
	if secret == nil {
		return p.result, nil
	}
	err = p.secrets.Delete(ctx, secret.secret)
	return p.result, err
}

// Withdraw deletes the keys in Coder, even if pods use them. The Secret is deleted with its owner.
func (m *Manager) Withdraw(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	secret, err := p.mine(ctx)
	if err == nil {
		_, err = p.withdraw(ctx, secret)
	}
	return p.result, err
}

// Abandon returns Events which report that keys are left behind.
func (m *Manager) Abandon(req Request, left []Record, why string) ensure.Events {
	p := m.newPass(req)
	for _, r := range left {
		p.leftBehind(r, why)
	}
	return p.result.Events
}

// withdraw deletes the keys of the status and of a Secret, which may be nil. done reports that none is
// left.
func (p *pass) withdraw(ctx context.Context, secret *stored) (done bool, err error) {
	var records []Record
	if r := statusRecord(p.cr); r != nil {
		records = append(records, *r)
	}
	if secret != nil {
		known := slices.Clone(secret.replaced)
		if secret.record != nil {
			known = append(known, *secret.record)
		}
		for _, r := range known {
			if !slices.ContainsFunc(records, func(o Record) bool { return o.ID == r.ID }) {
				records = append(records, r)
			}
		}
	}
	p.result.Left, err = p.deleteKeys(ctx, records)
	if err != nil {
		return false, err
	}
	if secret != nil && secret.intent != nil {
		if err := p.resolveIntent(ctx, secret); ensure.Stopped(err) != nil {
			p.result.Left = append(p.result.Left, *secret.intent)
		} else if err != nil {
			return false, err
		}
	}
	return len(p.result.Left) == 0, nil
}

// mine reads the Secret with the key. It returns nil if there is none or another owner has it.
func (p *pass) mine(ctx context.Context) (*stored, error) {
	secret, err := p.secrets.GetMine(ctx, resources.KeySecretName(p.cr))
	if err != nil || secret == nil {
		return nil, err
	}
	return readStored(secret, resources.KeySecretKey(p.cr)), nil
}

// free reports whether no pod uses a key other than this one, and no such pod can be created.
func (u Usage) free(id string) bool {
	return u.Settled && !slices.ContainsFunc(u.KeyIDs, func(other string) bool { return other != id })
}

// deleteKeys deletes keys in Coder, and returns those that still exist or may exist. If the control
// plane of a key is gone, the key is left behind with an Event.
func (p *pass) deleteKeys(ctx context.Context, records []Record) (left []Record, err error) {
	for _, r := range records {
		api, gone, err := p.reach(ctx)
		if gone {
			p.leftBehind(r, fmt.Sprintf("CoderControlPlane %q no longer exists", controlPlaneName(p.cr)))
			continue
		}
		if err == nil {
			err = p.deleteKey(ctx, api, r)
		}
		if err == nil {
			continue
		}
		why := ensure.Stopped(p.judge(err))
		if why == nil {
			return nil, err
		}
		left = append(left, r)
		p.result.RequeueAfter = ensure.Sooner(p.result.RequeueAfter, why.After)
		p.result.Key = framework.ConditionUnknown(typeKey, coderv1alpha1.ReasonWaiting, why.Message)
	}
	return left, nil
}

// deleteKey deletes a key by its name, after checking that the key with that name has the recorded
// id. A key that was handed over stays.
func (p *pass) deleteKey(ctx context.Context, api *coderd.Client, r Record) error {
	if err := p.silent(); err != nil {
		return err
	}
	if given, err := p.handedOver(ctx, api, r); given || err != nil {
		return err
	}
	org, err := uuid.Parse(r.OrganizationID)
	if err != nil {
		return nil //nolint:nilerr // A record that somebody broke names no key.
	}
	keys, err := api.ProvisionerKeys(ctx, org)
	if coderd.IsNotFound(err) || coderd.IsNotSupported(err) {
		return nil
	}
	if err != nil {
		return err
	}
	i := slices.IndexFunc(keys, func(k coderd.ProvisionerKey) bool { return k.ID.String() == r.ID })
	if i < 0 {
		return nil
	}
	if err := api.DeleteProvisionerKey(ctx, org, keys[i].Name); err != nil {
		return ignoreNotFound(err)
	}
	p.result.Events.Normal(coderv1alpha1.ReasonProvisionerKeyDeleted, fmt.Sprintf("deleted provisioner key %q in organization %q", keys[i].Name, p.organization(r)))
	return nil
}

// handedOver reports whether a user put this key into the Secret of spec.key.secretRef. The key then
// belongs to the user and stays.
func (p *pass) handedOver(ctx context.Context, api *coderd.Client, r Record) (bool, error) {
	given := resources.KeySource(p.cr, nil)
	if given == nil || p.cr.Spec.PSKSecretRef != nil {
		return false, nil
	}
	secret, err := p.secrets.Get(ctx, given.Name)
	if err != nil || secret == nil || p.secrets.Mine(secret) {
		return false, err
	}
	key, err := api.CheckProvisionerKey(ctx, strings.TrimSpace(string(secret.Data[given.Key])))
	if coderd.IsUnauthorized(err) || coderd.IsNotSupported(err) {
		return false, nil
	}
	return key.ID.String() == r.ID, err
}

func ignoreNotFound(err error) error {
	if coderd.IsNotFound(err) {
		return nil
	}
	return err
}

// reach returns a client for the Coder of the spec. gone reports that the control plane does not
// exist.
func (p *pass) reach(ctx context.Context) (api *coderd.Client, gone bool, err error) {
	if p.req.ControlPlane == nil {
		return nil, true, nil
	}
	api, err = p.Connect(ctx, p.req.ControlPlane)
	return api, false, err
}

func (p *pass) leftBehind(r Record, why string) {
	p.result.Events.Warning(coderv1alpha1.ReasonProvisionerKeyLeftBehind, fmt.Sprintf(
		"provisioner key %q in organization %q of control plane %q was not deleted; delete it in Coder: %s",
		r.Name, p.organization(r), controlPlaneName(p.cr), why))
}

func (p *pass) organization(r Record) string {
	if status := p.cr.Status; status.OrganizationID == r.OrganizationID && status.OrganizationName != "" {
		return status.OrganizationName
	}
	return r.OrganizationID
}
