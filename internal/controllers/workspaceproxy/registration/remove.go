package registration

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// remove removes the registration. It writes nothing to Kubernetes: the Secret is deleted with its
// owner, and removing a registration twice is harmless.
func (p *pass) remove(ctx context.Context) error {
	secret, err := p.secrets.GetMine(ctx, resources.ProxyTokenSecretName(p.proxy))
	if err != nil {
		return err
	}
	r := readRecord(secret)
	if r.empty() {
		r.id, r.name = p.proxy.Status.ProxyID, p.proxy.Status.ProxyName
	}
	if !r.empty() && p.proxy.Spec.ProxySessionTokenSecretRef == nil {
		where := fmt.Sprintf("%q", r.name)
		t, problem := p.target(ctx, true)
		if problem == nil {
			where += " in Coder at " + t.url
			problem = p.unregister(ctx, t, r)
		}
		if problem != nil {
			p.result.LeftBehind = fmt.Sprintf("the registration %s was not removed; delete it in Coder: %v", where, problem)
			if !ensure.IsUnavailable(problem) {
				return problem
			}
		}
	}
	p.registered(false)
	p.result.Ready(coderv1alpha1.ReasonUnregistered, "no registration of this proxy is left in Coder")
	return nil
}

// unregister removes a registration. It returns nil if nothing is left of it. Otherwise the error is
// a stop, unless Kubernetes failed.
func (p *pass) unregister(ctx context.Context, t *target, r *record) error {
	id, unreadable := uuid.Parse(r.id)
	if r.id == "" {
		// Its creation was prepared, and may have succeeded.
		found, err := t.api.WorkspaceProxyByName(ctx, r.name)
		if coderd.IsNotFound(err) || err == nil && !p.isMarked(found) {
			return nil
		}
		if err != nil {
			return answered(err)
		}
		id = found.ID
	} else if unreadable != nil {
		// The record was changed by a user and names no proxy that could be removed.
		return nil //nolint:nilerr // What cannot be read names no proxy.
	}
	found, err := t.api.WorkspaceProxyByID(ctx, id)
	if coderd.IsNotFound(err) || err == nil && found.Deleted {
		return nil
	}
	if err == nil {
		err = t.api.DeleteWorkspaceProxy(ctx, id)
	}
	if err != nil {
		return answered(err)
	}
	p.result.Events.Normal(coderv1alpha1.ReasonUnregistered, fmt.Sprintf("removed the registration %q in Coder at %s", found.Name, t.url))
	return nil
}
