package registration

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/framework"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// digest identifies everything on which the check of a registration depends.
func (p *pass) digest(t *target, r *record) ensure.Digest {
	wanted := p.proxy.Spec.Bootstrap
	return ensure.DigestOf(t.url, t.token, r.id, r.name, r.token, resources.ProxyName(p.proxy), wanted.DisplayName, wanted.Icon)
}

func (p *pass) verify(ctx context.Context, t *target, kept *record) error {
	proxy, err := p.find(ctx, t, kept)
	if err != nil {
		return err
	}
	if proxy == nil {
		p.registered(false)
		if proxy, err = p.make(ctx, t, kept); err != nil {
			return err
		}
	}
	p.use(kept)
	if proxy, err = p.keepToken(ctx, t, kept, proxy); err != nil {
		return err
	}
	p.registered(true)
	p.use(kept)
	if err := p.keepValues(ctx, t, kept, proxy); err != nil {
		return err
	}
	p.use(kept)
	p.remember(p.digest(t, kept), nil)
	return nil
}

// find returns the operator's proxy in this Coder. It returns nil if the record names none or Coder
// does not have it.
func (p *pass) find(ctx context.Context, t *target, kept *record) (*coderd.WorkspaceProxy, error) {
	known := kept.id
	if kept.empty() {
		// The Secret is lost.
		known = p.proxy.Status.ProxyID
	}
	id, errID := uuid.Parse(known)
	var proxy coderd.WorkspaceProxy
	var err error
	switch {
	case known != "" && errID == nil:
		proxy, err = t.api.WorkspaceProxyByID(ctx, id)
	case known == "" && kept.name != "":
		if proxy, err = t.api.WorkspaceProxyByName(ctx, kept.name); err == nil && !p.isMarked(proxy) {
			return nil, nil
		}
	default:
		return nil, nil
	}
	switch {
	case coderd.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, answered(err)
	case proxy.Deleted, proxy.Primary():
		return nil, nil
	}
	return &proxy, p.hold(ctx, kept, proxy)
}

// hold stores that the operator owns a proxy, before the proxy is changed.
func (p *pass) hold(ctx context.Context, kept *record, proxy coderd.WorkspaceProxy) error {
	kept.id, kept.name = proxy.ID.String(), proxy.Name
	return p.save(ctx, kept)
}

func (p *pass) make(ctx context.Context, t *target, kept *record) (*coderd.WorkspaceProxy, error) {
	name := resources.ProxyName(p.proxy)
	ours, err := p.nameIsFree(ctx, t, kept, name)
	if err != nil {
		return nil, err
	}
	if ours != nil {
		return ours, p.hold(ctx, kept, *ours)
	}
	if p.proxy.Status.ProxyName == "" {
		// As soon as the status has the name, the API server rejects changes of the fields that say where
		// the registration and its token are.
		p.result.ProxyName = name
		return nil, ensure.Waits(coderv1alpha1.ReasonWaiting, framework.ConflictInterval, "the proxy %q is about to be registered in Coder at %s", name, t.url)
	}
	if err := p.secrets.CheckOwner(ctx); err != nil {
		return nil, err
	}
	kept.id, kept.name = "", name
	if err := p.save(ctx, kept); err != nil {
		return nil, err
	}
	wanted := p.proxy.Spec.Bootstrap
	proxy, token, err := t.api.CreateWorkspaceProxy(ctx, name, wanted.DisplayName, cmp.Or(wanted.Icon, coderd.DefaultProxyIcon)+p.mark())
	switch {
	case coderd.IsConflict(err):
		return nil, nameTaken(name, t.url)
	case err != nil:
		return nil, answered(err)
	}
	kept.token = token
	if err := p.hold(ctx, kept, proxy); err != nil {
		return nil, err
	}
	p.result.Events.Normal(coderv1alpha1.ReasonRegistered, fmt.Sprintf("registered workspace proxy %q in Coder at %s", name, t.url))
	return &proxy, nil
}

// nameIsFree checks whether the proxy may be created, or renamed, with this name. If a proxy of the
// operator already has the name, nameIsFree returns it.
func (p *pass) nameIsFree(ctx context.Context, t *target, kept *record, name string) (*coderd.WorkspaceProxy, error) {
	if err := coderd.CheckProxyName(name); err != nil {
		return nil, ensure.Fails(coderv1alpha1.ReasonInvalidSpec, 0, "the name of the proxy is not valid in Coder: %v; set another spec.bootstrap.proxyName", err)
	}
	if err := p.checkSiblings(ctx, t, name); err != nil {
		return nil, err
	}
	existing, err := t.api.WorkspaceProxyByName(ctx, name)
	switch {
	case coderd.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, answered(err)
	case p.isMarked(existing), kept.id == existing.ID.String():
		return &existing, nil
	}
	return nil, nameTaken(name, t.url)
}

func nameTaken(name, url string) error {
	return ensure.Fails(coderv1alpha1.ReasonNameTaken, retryFailed,
		"Coder at %s has a proxy named %q that this CoderWorkspaceProxy did not register, so it was not changed; "+
			"delete it in Coder, give another spec.bootstrap.proxyName, or give its session token in spec.proxySessionTokenSecretRef", url, name)
}

func (p *pass) keepToken(ctx context.Context, t *target, kept *record, proxy *coderd.WorkspaceProxy) (*coderd.WorkspaceProxy, error) {
	if of, ok := coderd.ProxyOfToken(kept.token); ok && of == proxy.ID {
		err := t.api.CheckWorkspaceProxyToken(ctx, kept.token)
		if err == nil {
			return proxy, nil
		}
		if !coderd.IsUnauthorized(err) {
			return nil, answered(err)
		}
	}
	p.registered(false)
	if err := p.secrets.CheckUnchanged(ctx, resources.ProxyTokenSecretName(p.proxy), kept.secret); err != nil {
		return nil, err
	}
	wanted := p.proxy.Spec.Bootstrap
	changed, token, err := t.api.UpdateWorkspaceProxy(ctx, proxy.ID, proxy.Name, wanted.DisplayName, wanted.Icon, true)
	switch {
	case err != nil:
		return nil, answered(err)
	case token == "":
		return nil, ensure.Fails(coderv1alpha1.ReasonCoderRefused, retryFailed, "Coder at %s returned no token when it was asked for a new token of the proxy %q", t.url, proxy.Name)
	}
	kept.token = token
	if err := p.save(ctx, kept); err != nil {
		return nil, err
	}
	p.result.Events.Normal(coderv1alpha1.ReasonTokenRegenerated, fmt.Sprintf("Coder at %s created a new session token for the proxy %q", t.url, proxy.Name))
	return &changed, nil
}

func (p *pass) keepValues(ctx context.Context, t *target, kept *record, proxy *coderd.WorkspaceProxy) error {
	name, wanted := resources.ProxyName(p.proxy), p.proxy.Spec.Bootstrap
	if proxy.Matches(name, wanted.DisplayName, wanted.Icon) {
		return nil
	}
	if name != proxy.Name && !strings.EqualFold(name, proxy.Name) {
		if _, err := p.nameIsFree(ctx, t, kept, name); err != nil {
			return err
		}
	}
	fresh := p.isMarked(*proxy)
	_, _, err := t.api.UpdateWorkspaceProxy(ctx, proxy.ID, name, wanted.DisplayName, wanted.Icon, false)
	switch {
	case coderd.IsConflict(err):
		return nameTaken(name, t.url)
	case err != nil:
		return answered(err)
	}
	kept.name = name
	if err := p.save(ctx, kept); err != nil {
		return err
	}
	if !fresh {
		p.result.Events.Normal(coderv1alpha1.ReasonRegistrationChanged,
			fmt.Sprintf("updated name, display name and icon of the proxy %q in Coder at %s to match the spec", name, t.url))
	}
	return nil
}

// mark returns the end of the icon of a proxy whose id is not stored yet.
func (p *pass) mark() string { return "#coder-k8s-" + string(p.proxy.UID) }

func (p *pass) isMarked(proxy coderd.WorkspaceProxy) bool {
	return p.proxy.UID != "" && strings.HasSuffix(proxy.Icon, p.mark())
}

// given verifies the session token of spec.proxySessionTokenSecretRef. That Secret belongs to the
// user and is never written.
func (p *pass) given(ctx context.Context, ref coderv1alpha1.TokenSecretReference) error {
	ref.Key = cmp.Or(ref.Key, coderv1alpha1.SecretKeyToken)
	ours, err := p.secrets.GetMine(ctx, ref.Name)
	if err != nil {
		return err
	}
	if ours != nil {
		return ensure.Fails(coderv1alpha1.ReasonInvalidSpec, 0,
			"spec.proxySessionTokenSecretRef names Secret %q, which the operator created itself; use your own Secret, "+
				"or register the proxy through controlPlaneRef or bootstrap", ref.Name)
	}
	p.result.TokenRef = &ref
	token, err := p.tokenIn(ctx, ref.Name, ref.Key)
	if err != nil {
		return err
	}
	if token == "" {
		p.registered(false)
		return ensure.Fails(coderv1alpha1.ReasonTokenSecretMissing, retryFailed,
			"there is no session token in key %q of Secret %q in namespace %q (spec.proxySessionTokenSecretRef); put it there",
			ref.Key, ref.Name, p.proxy.Namespace)
	}
	if err := p.checkGiven(ctx, ref, token); err != nil {
		return err
	}
	p.result.Ready(coderv1alpha1.ReasonTokenAccepted, fmt.Sprintf(
		"Coder at %s accepts the session token of spec.proxySessionTokenSecretRef", strings.TrimSuffix(p.req.AccessURL, "/")))
	p.result.RequeueAfter = p.untilRecheck()
	return nil
}

// checkGiven verifies a token with Coder. If the access URL does not answer, the token stays
// unverified and is not rejected: browsers and pods use that URL, and the operator may be unable to
// reach it.
func (p *pass) checkGiven(ctx context.Context, ref coderv1alpha1.TokenSecretReference, token string) error {
	about := ensure.DigestOf(p.req.AccessURL, token)
	if p.recall(about) {
		if p.checked.Value == nil {
			p.registered(true)
			return nil
		}
		return p.checked.Value
	}
	api, err := p.NewClient(coderd.Config{URL: p.req.AccessURL, Timeout: requestTimeout, Restricted: true})
	if err == nil {
		err = api.CheckWorkspaceProxyToken(ctx, token)
	}
	switch {
	case err == nil:
		p.registered(true)
		p.remember(about, nil)
		return nil
	case coderd.IsUnauthorized(err):
		p.registered(false)
		return ensure.Fails(coderv1alpha1.ReasonTokenRefused, retryFailed,
			"Coder at %s does not accept the session token in key %q of Secret %q (spec.proxySessionTokenSecretRef): it is wrong, "+
				"or the proxy was deleted; put a new one there", api.URL(), ref.Key, ref.Name)
	}
	unverified := &ensure.Stop{State: Unverified, Reason: coderv1alpha1.ReasonNotChecked, After: recheck,
		Message: "the session token of spec.proxySessionTokenSecretRef could not be verified: " + Stable(err.Error())}
	p.remember(about, unverified)
	return unverified
}

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
