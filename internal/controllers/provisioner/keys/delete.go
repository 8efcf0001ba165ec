package keys

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/kube/steps"
)

// deleteKeys deletes keys in Coder, and returns those that still exist or may exist. If the control
// plane of a key is gone, the key is left behind with an Event.
func (p *pass) deleteKeys(ctx context.Context, records []Record) (left []Record, err error) {
	for _, r := range records {
		api, gone, err := p.reach(ctx, r.ControlPlane)
		if gone {
			p.leftBehind(r, fmt.Sprintf("CoderControlPlane %q does not exist any more", r.ControlPlane))
			continue
		}
		if err == nil {
			err = p.deleteKey(ctx, api, r)
		}
		if err == nil {
			continue
		}
		after, message, ok := p.delay(err)
		if !ok {
			return nil, err
		}
		left = append(left, r)
		p.result.RequeueAfter = steps.Sooner(p.result.RequeueAfter, after)
		p.result.Key = unknown(coderv1alpha1.ReasonWaiting, message)
	}
	return left, nil
}

// delay returns when to retry a failed deletion.
func (p *pass) delay(err error) (after time.Duration, message string, ok bool) {
	if why, missing := isUnavailable(err); missing {
		return time.Minute, why.Message, true
	}
	_, message, after, ok = p.judge(err)
	return after, message, ok
}

// deleteKey deletes a key by its name, after checking that the key with that name has the recorded
// id.
func (p *pass) deleteKey(ctx context.Context, api API, r Record) error {
	if err := p.silent(); err != nil {
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

func ignoreNotFound(err error) error {
	if coderd.IsNotFound(err) {
		return nil
	}
	return err
}

// reach returns a client for the Coder of a control plane in this namespace. gone reports that the
// control plane does not exist.
func (p *pass) reach(ctx context.Context, name string) (api API, gone bool, err error) {
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
		"left behind: provisioner key %q in organization %q of control plane %q; delete it in Coder: %s",
		r.Name, p.organization(r), r.ControlPlane, why))
}

// organization returns the name of a key's organization, or its id if the name is unknown.
func (p *pass) organization(r Record) string {
	if status := p.cr.Status; status.OrganizationID == r.OrganizationID && status.OrganizationName != "" {
		return status.OrganizationName
	}
	return r.OrganizationID
}
