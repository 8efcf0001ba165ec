package keys

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// Retire deletes what was replaced, once no pod uses it: keys in Coder, Secrets with earlier names,
// and earlier entries of the Secret. Result.Left contains the keys that must still be deleted.
func (m *Manager) Retire(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	err := p.retire(ctx)
	return p.result, err
}

// Release deletes everything that the operator created, once no pod uses it, except for a key that
// was handed over. It is for daemons whose credentials now come from the spec.
func (m *Manager) Release(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	err := p.release(ctx)
	return p.result, err
}

// Withdraw deletes the keys in Coder, even if pods use them. The Secrets are deleted with their
// owner.
func (m *Manager) Withdraw(ctx context.Context, req Request) (Result, error) {
	p := m.newPass(req)
	_, err := p.withdraw(ctx)
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

func (p *pass) retire(ctx context.Context) error {
	secret, err := p.mine(ctx)
	if err != nil || secret == nil || secret.text == "" || secret.record == nil {
		return err
	}
	others, err := p.others(ctx)
	if err != nil || len(secret.replaced) == 0 && len(secret.oldFields) == 0 && len(others) == 0 {
		return err
	}
	usage, err := p.req.Usage(ctx)
	if err != nil {
		return err
	}
	if !usage.free(secret.record.ID) {
		p.result.Left, p.result.RequeueAfter = secret.replaced, retrySoon
		return nil
	}
	if err := p.gather(ctx, secret, others); err != nil {
		return err
	}
	left, err := p.deleteKeys(ctx, secret.replaced)
	if err != nil {
		return err
	}
	for _, field := range secret.oldFields {
		delete(secret.secret.Data, field)
	}
	if len(left) < len(secret.replaced) || len(secret.oldFields) > 0 {
		secret.replaced, secret.oldFields = left, nil
		if err := p.save(ctx, secret); err != nil {
			return err
		}
	}
	return p.removeAll(ctx, others)
}

// gather records in the current Secret the replaced keys that only Secrets with earlier names
// contain.
func (p *pass) gather(ctx context.Context, s *stored, others []*stored) error {
	before := len(s.replaced)
	for _, other := range others {
		if other.record != nil {
			s.replace(other.record)
		}
		for i := range other.replaced {
			s.replace(&other.replaced[i])
		}
	}
	if len(s.replaced) == before {
		return nil
	}
	return p.save(ctx, s)
}

func (p *pass) release(ctx context.Context) error {
	all, err := p.holders(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 && statusRecord(p.cr) == nil {
		p.result.Forgotten = true
		return nil
	}
	if given := resources.KeySource(p.cr, nil); given != nil && p.cr.Spec.PSKSecretRef == nil {
		if slices.ContainsFunc(all, func(s *stored) bool { return s.secret.Name == given.Name }) {
			p.result.Secret = workload.ConditionFalse(typeSecret, coderv1alpha1.ReasonInvalidSpec, fmt.Sprintf(
				"Secret %q of spec.key.secretRef contains a key that the operator created; remove spec.key.secretRef, or put your own key into another Secret",
				given.Name))
			return nil
		}
	}
	usage, err := p.req.Usage(ctx)
	if err != nil {
		return err
	}
	if !usage.free("") {
		p.result.RequeueAfter = retrySoon
		return nil
	}
	done, err := p.withdraw(ctx)
	if err != nil || !done {
		return err
	}
	p.result.Forgotten = true
	return p.removeAll(ctx, all)
}

func (p *pass) removeAll(ctx context.Context, list []*stored) error {
	for _, s := range list {
		if err := p.secrets.Delete(ctx, s.secret); err != nil {
			return err
		}
	}
	return nil
}

// withdraw deletes all keys in Coder. done reports that none is left.
func (p *pass) withdraw(ctx context.Context) (done bool, err error) {
	all, err := p.holders(ctx)
	if err != nil {
		return false, err
	}
	var records []Record
	add := func(r *Record) {
		if r != nil && r.ID != "" && !slices.ContainsFunc(records, func(o Record) bool { return o.ID == r.ID }) {
			records = append(records, *r)
		}
	}
	add(statusRecord(p.cr))
	for _, s := range all {
		add(s.record)
		for i := range s.replaced {
			add(&s.replaced[i])
		}
	}
	left, err := p.deleteKeys(ctx, records)
	if err != nil {
		return false, err
	}
	for _, s := range all {
		if s.intent == nil {
			continue
		}
		if err := p.resolveIntent(ctx, s); ensure.Stopped(err) != nil {
			left = append(left, *s.intent)
		} else if err != nil {
			return false, err
		}
	}
	p.result.Left = left
	return len(left) == 0, nil
}

func (p *pass) mine(ctx context.Context) (*stored, error) {
	secret, err := p.secrets.GetMine(ctx, resources.KeySecretName(p.cr))
	if err != nil || secret == nil {
		return nil, err
	}
	return readStored(secret, resources.KeySecretKey(p.cr)), nil
}

// holders returns all Secrets of this provisioner with keys that the operator created.
func (p *pass) holders(ctx context.Context) ([]*stored, error) {
	all, err := p.others(ctx)
	if err != nil {
		return nil, err
	}
	present, err := p.mine(ctx)
	if err == nil && present != nil && marked(present.secret) {
		all = append(all, present)
	}
	return all, err
}

// free reports whether no pod uses a key other than this one, and no such pod can be created.
func (u Usage) free(id string) bool {
	return u.Settled && !slices.ContainsFunc(u.KeyIDs, func(other string) bool { return other != id })
}

// deleteKeys deletes keys in Coder, and returns those that still exist or may exist. If the control
// plane of a key is gone, the key is left behind with an Event.
func (p *pass) deleteKeys(ctx context.Context, records []Record) (left []Record, err error) {
	for _, r := range records {
		api, gone, err := p.reach(ctx, r.ControlPlane)
		if gone {
			p.leftBehind(r, fmt.Sprintf("CoderControlPlane %q no longer exists", r.ControlPlane))
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
		p.result.Key = workload.ConditionUnknown(typeKey, coderv1alpha1.ReasonWaiting, why.Message)
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
// belongs to the user and stays. Only the Coder that the daemons use may see the user's key.
func (p *pass) handedOver(ctx context.Context, api *coderd.Client, r Record) (bool, error) {
	given := resources.KeySource(p.cr, nil)
	if given == nil || p.cr.Spec.PSKSecretRef != nil {
		return false, nil
	}
	secret, err := p.secrets.Get(ctx, given.Name)
	if err != nil || secret == nil || p.secrets.Mine(secret) {
		return false, err
	}
	text := strings.TrimSpace(string(secret.Data[given.Key]))
	if ref := p.cr.Spec.ControlPlaneRef; ref == nil || ref.Name != r.ControlPlane {
		all, err := p.holders(ctx)
		if err == nil && len(all) == 0 {
			// Usually an earlier pass has deleted the keys that were not handed over, and failed to write the status.
			p.leftBehind(r, "its Secret no longer exists; it may be the key of spec.key.secretRef, and then it must stay")
			return true, nil
		}
		return slices.ContainsFunc(all, func(s *stored) bool {
			return s.record != nil && s.record.ID == r.ID && s.text == text
		}), err
	}
	key, err := api.CheckProvisionerKey(ctx, text)
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

// reach returns a client for the Coder of a control plane in this namespace. gone reports that the
// control plane does not exist.
func (p *pass) reach(ctx context.Context, name string) (api *coderd.Client, gone bool, err error) {
	cp := p.req.ControlPlane
	if cp == nil || cp.Name != name {
		cp = &coderv1alpha1.CoderControlPlane{}
		err := p.Client.Get(ctx, client.ObjectKey{Namespace: p.cr.Namespace, Name: name}, cp)
		if apierrors.IsNotFound(err) || name == "" {
			return nil, true, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("reading CoderControlPlane %q: %w", name, err)
		}
	}
	api, err = p.Connect(ctx, cp)
	return api, false, err
}

func (p *pass) leftBehind(r Record, why string) {
	p.result.Events.Warning(coderv1alpha1.ReasonProvisionerKeyLeftBehind, fmt.Sprintf(
		"provisioner key %q in organization %q of control plane %q was not deleted; delete it in Coder: %s",
		r.Name, p.organization(r), r.ControlPlane, why))
}

func (p *pass) organization(r Record) string {
	if status := p.cr.Status; status.OrganizationID == r.OrganizationID && status.OrganizationName != "" {
		return status.OrganizationName
	}
	return r.OrganizationID
}
