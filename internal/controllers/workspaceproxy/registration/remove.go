package registration

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/ensure"
)

// remove removes all known registrations. It writes nothing to Kubernetes: the Secret is deleted
// with its owner, and removing a registration twice is harmless.
func (p *pass) remove(ctx context.Context) error {
	records, err := p.load(ctx)
	if err != nil {
		return err
	}
	var pending error
	for _, r := range p.known(records) {
		problem := p.unregister(ctx, r)
		switch {
		case problem == nil:
			continue
		case ensure.Stopped(problem) == nil:
			return problem
		case !ensure.IsUnavailable(problem) && pending == nil:
			pending = problem
		}
		p.result.LeftBehind = append(p.result.LeftBehind, leftBehind(r, problem))
	}
	if pending != nil {
		return pending
	}
	p.registered(false)
	p.result.Ready(coderv1alpha1.ReasonUnregistered, "no registration of this proxy is left in Coder")
	return nil
}

// known returns all registrations of this proxy without duplicates. If the Secret is lost, it
// returns the one in the status.
func (p *pass) known(records []*record) []registration {
	var all []registration
	for _, r := range records {
		for _, one := range r.all() {
			one = p.completed(one)
			if !slices.ContainsFunc(all, one.same) {
				all = append(all, one)
			}
		}
	}
	if id := p.proxy.Status.ProxyID; id != "" && len(records) == 0 {
		all = append(all, p.completed(registration{ID: id, Name: p.proxy.Status.ProxyName}))
	}
	return all
}

// completed adds the credentials of the spec to a registration that does not record how it was
// created.
func (p *pass) completed(r registration) registration {
	if r.Through != "" {
		return r
	}
	spec := p.proxy.Spec
	switch {
	case spec.ControlPlaneRef != nil:
		r.Through = throughControlPlane + "/" + spec.ControlPlaneRef.Name
	case spec.Bootstrap.CredentialsSecretRef != nil:
		ref := spec.Bootstrap.CredentialsSecretRef
		r.URL, r.Through = spec.Bootstrap.CoderURL, throughSecret+"/"+ref.Name+"/"+cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)
	}
	return r
}

func (p *pass) retire(ctx context.Context) (note string, err error) {
	records, err := p.load(ctx)
	if err != nil || len(records) == 0 {
		return "", err
	}
	if p.proxy.Spec.ProxySessionTokenSecretRef != nil {
		return p.removeAll(ctx, records)
	}
	for _, extra := range records[1:] {
		if err := p.secrets.Delete(ctx, extra.secret); err != nil {
			return "", err
		}
	}
	return p.removeFormer(ctx, records[0])
}

// removeAll removes the operator's earlier registrations and their Secrets.
func (p *pass) removeAll(ctx context.Context, records []*record) (note string, err error) {
	for _, r := range records {
		r.replace(registration{})
		if err := p.save(ctx, r); err != nil {
			return "", err
		}
		n, err := p.removeFormer(ctx, r)
		if err != nil {
			return "", err
		}
		note += n
		if len(r.former) > 0 {
			continue
		}
		if err := p.secrets.Delete(ctx, r.secret); err != nil {
			return "", err
		}
	}
	return note, nil
}

// removeFormer removes the registrations that the spec no longer asks for, if their Coder is
// reachable. note describes those that are not removed yet. An hour after the first attempt they are
// left behind with an Event.
func (p *pass) removeFormer(ctx context.Context, kept *record) (note string, err error) {
	if len(kept.former) == 0 {
		return "", nil
	}
	var left []registration
	for _, r := range kept.former {
		if r.same(kept.registration) {
			continue
		}
		r.Since = cmp.Or(r.Since, p.Clock.Now().UTC().Format(time.RFC3339))
		problem := p.unregister(ctx, r)
		switch {
		case problem == nil:
		case ensure.Stopped(problem) == nil:
			return "", problem
		case ensure.IsUnavailable(problem), p.overdue(r):
			p.result.Events.Warning(coderv1alpha1.ReasonUnregistrationSkipped, leftBehind(r, problem))
		default:
			left = append(left, r)
			note += fmt.Sprintf("; its previous registration %s is not removed yet: %v", r.where(), problem)
		}
	}
	kept.former = left
	return note, p.save(ctx, kept)
}

// unregister removes a registration. It returns nil if nothing is left of it. Otherwise the error is
// a stop, unless Kubernetes failed.
func (p *pass) unregister(ctx context.Context, r registration) error {
	t, err := p.former(ctx, r)
	if err != nil {
		return err
	}
	id, unreadable := uuid.Parse(r.ID)
	if r.ID == "" {
		// Its creation was prepared, and may have succeeded.
		found, err := t.api.WorkspaceProxyByName(ctx, r.Name)
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
	p.result.Events.Normal(coderv1alpha1.ReasonUnregistered, "removed the registration "+r.where())
	return nil
}

func (p *pass) overdue(r registration) bool {
	since, err := time.Parse(time.RFC3339, r.Since)
	return err != nil || coderd.Elapsed(p.Clock.Now(), since, formerLimit)
}

func (r registration) where() string {
	if r.URL == "" {
		return fmt.Sprintf("%q", r.Name)
	}
	return fmt.Sprintf("%q in Coder at %s", r.Name, r.URL)
}

func leftBehind(r registration, why error) string {
	return fmt.Sprintf("the registration %s was not removed; delete it in Coder: %v", r.where(), why)
}
