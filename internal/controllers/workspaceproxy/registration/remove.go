package registration

import (
	"context"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
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
		problem := p.takeAway(ctx, r)
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
	p.result.Ready(coderv1alpha1.ReasonUnregistered, "the operator holds no registration of this proxy in Coder")
	return nil
}

// known returns all registrations of this proxy without duplicates. If the Secret is lost, it
// returns the one in the status.
func (p *pass) known(records []*record) []registration {
	var all []registration
	for _, r := range records {
		for _, one := range r.all() {
			one = p.completed(one)
			if !containsSame(all, one) {
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
		key := ref.Key
		if key == "" {
			key = coderv1alpha1.SecretKeyToken
		}
		r.URL, r.Through = spec.Bootstrap.CoderURL, throughSecret+"/"+ref.Name+"/"+key
	}
	return r
}

func containsSame(list []registration, one registration) bool {
	for _, other := range list {
		if other.same(one) {
			return true
		}
	}
	return false
}
