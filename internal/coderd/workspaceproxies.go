package coderd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// PrimaryProxy is the name of Coder itself as a proxy.
const PrimaryProxy = "primary"

// DefaultProxyIcon is the icon of a proxy without its own icon, because Coder refuses to change a
// proxy without one. Coder's command line suggests the same icon.
const DefaultProxyIcon = "/emojis/1f5fa.png"

// WorkspaceProxy is a workspace proxy of Coder.
type WorkspaceProxy struct {
	ID          uuid.UUID
	Name        string
	DisplayName string
	Icon        string
	// Deleted can be true only if a proxy is read by its id, because Coder keeps deleted proxies.
	Deleted bool
}

// Primary reports whether this is Coder itself, which cannot be changed.
func (p WorkspaceProxy) Primary() bool { return strings.EqualFold(p.Name, PrimaryProxy) }

// Matches reports whether the proxy has these values. Empty values are replaced as
// CreateWorkspaceProxy and UpdateWorkspaceProxy do.
func (p WorkspaceProxy) Matches(name, displayName, icon string) bool {
	displayName, icon = proxyDefaults(name, displayName, icon)
	return p.Name == name && p.DisplayName == displayName && p.Icon == icon
}

// proxyDefaults replaces empty values. Coder does this itself when a proxy is created, but not when
// it is changed.
func proxyDefaults(name, displayName, icon string) (string, string) {
	return cmp.Or(displayName, name), cmp.Or(icon, DefaultProxyIcon)
}

func newWorkspaceProxy(p codersdk.WorkspaceProxy) WorkspaceProxy {
	return WorkspaceProxy{
		ID: p.ID, Name: boundName(p.Name), DisplayName: boundName(p.DisplayName), Icon: boundText(p.IconURL),
		Deleted: p.Deleted,
	}
}

// CheckProxyName returns an error if the name is invalid for a new workspace proxy.
func CheckProxyName(name string) error {
	switch {
	case !plainName.MatchString(name):
		return fmt.Errorf("%q must consist of %s", name, plainNameRule)
	case strings.EqualFold(name, PrimaryProxy):
		return fmt.Errorf("%q is the name of Coder's built-in proxy", name)
	case uuid.Validate(name) == nil:
		return fmt.Errorf("%q looks like an ID, and Coder would treat it as one", name)
	}
	return nil
}

// WorkspaceProxyByName reads a proxy that is not deleted. The name is case-sensitive here, although
// two names may not differ only in case.
func (c *Client) WorkspaceProxyByName(ctx context.Context, name string) (WorkspaceProxy, error) {
	op := fmt.Sprintf("reading workspace proxy %q", name)
	if err := CheckProxyName(name); err != nil && !strings.EqualFold(name, PrimaryProxy) {
		return WorkspaceProxy{}, notThere(op, name, err.Error())
	}
	return c.readWorkspaceProxy(ctx, op, name)
}

// WorkspaceProxyByID reads a proxy, which may be deleted.
func (c *Client) WorkspaceProxyByID(ctx context.Context, id uuid.UUID) (WorkspaceProxy, error) {
	return c.readWorkspaceProxy(ctx, fmt.Sprintf("reading workspace proxy %s", id), id.String())
}

func (c *Client) readWorkspaceProxy(ctx context.Context, op, query string) (WorkspaceProxy, error) {
	return fetch(ctx, c, op, newWorkspaceProxy, with(c.sdk.WorkspaceProxyByName, query))
}

// CreateWorkspaceProxy creates a proxy and returns the token with which it registers. Coder returns
// the token only once. The error is IsConflict if the name exists, in whatever case. An empty
// display name is replaced by the name, an empty icon by DefaultProxyIcon.
func (c *Client) CreateWorkspaceProxy(ctx context.Context, name, displayName, icon string) (WorkspaceProxy, string, error) {
	displayName, icon = proxyDefaults(name, displayName, icon)
	return c.writeWorkspaceProxy(ctx, "creating", name, func(ctx context.Context) (codersdk.UpdateWorkspaceProxyResponse, error) {
		return c.sdk.CreateWorkspaceProxy(ctx, codersdk.CreateWorkspaceProxyRequest{Name: name, DisplayName: displayName, Icon: icon})
	})
}

// UpdateWorkspaceProxy sets these values, and creates a new token if regenerateToken is set; Coder
// then refuses the old token. Without a new token the returned one is empty. Empty values are
// replaced as in CreateWorkspaceProxy. The error is IsConflict if another proxy has the name.
func (c *Client) UpdateWorkspaceProxy(
	ctx context.Context, id uuid.UUID, name, displayName, icon string, regenerateToken bool,
) (WorkspaceProxy, string, error) {
	displayName, icon = proxyDefaults(name, displayName, icon)
	return c.writeWorkspaceProxy(ctx, "changing", name, func(ctx context.Context) (codersdk.UpdateWorkspaceProxyResponse, error) {
		return c.sdk.PatchWorkspaceProxy(ctx, codersdk.PatchWorkspaceProxy{
			ID: id, Name: name, DisplayName: displayName, Icon: icon, RegenerateToken: regenerateToken,
		})
	})
}

func (c *Client) writeWorkspaceProxy(
	ctx context.Context, doing, name string, write func(context.Context) (codersdk.UpdateWorkspaceProxyResponse, error),
) (WorkspaceProxy, string, error) {
	op := fmt.Sprintf("%s workspace proxy %q", doing, name)
	if err := CheckProxyName(name); err != nil {
		return WorkspaceProxy{}, "", badName(op, err)
	}
	var out codersdk.UpdateWorkspaceProxyResponse
	err := c.call(ctx, op, func(ctx context.Context) (err error) {
		out, err = write(ctx)
		return err
	})
	return newWorkspaceProxy(out.Proxy), out.ProxyToken, err
}

// DeleteWorkspaceProxy deletes a proxy. Coder refuses its token from then on, and its name can be
// reused. Deleting it again has no effect.
func (c *Client) DeleteWorkspaceProxy(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("deleting workspace proxy %s", id), func(ctx context.Context) error {
		return c.sdk.DeleteWorkspaceProxyByID(ctx, id)
	})
}

// ProxyOfToken returns the id of the proxy to which a token belongs, which is the first part of the
// token. It returns false if the text is not such a token.
func ProxyOfToken(token string) (uuid.UUID, bool) {
	id, secret, ok := strings.Cut(token, ":")
	proxy, err := uuid.Parse(id)
	return proxy, ok && err == nil && secret != ""
}

// CheckWorkspaceProxyToken returns nil if Coder accepts a token of a proxy. The error is
// IsUnauthorized if Coder does not: the token was replaced, or the proxy is deleted. It needs no
// session token.
//
// Coder has no endpoint for this. The request asks for the keys of a proxy without a feature: Coder
// verifies the token, then refuses the request (400) and sends no key.
func (c *Client) CheckWorkspaceProxyToken(ctx context.Context, token string) error {
	const op = "asking Coder about the token of a workspace proxy"
	if _, ok := ProxyOfToken(token); !ok {
		return &Error{Op: op, StatusCode: http.StatusUnauthorized, Message: "the text is not a token of a workspace proxy; it must be <id>:<secret>"}
	}
	err := c.callWithoutToken(ctx, op, func(ctx context.Context) error {
		res, err := c.sdk.RequestWithoutSessionToken(ctx, http.MethodGet, "/api/v2/workspaceproxies/me/crypto-keys", nil, func(r *http.Request) {
			r.Header.Set("Coder-External-Proxy-Token", token)
		})
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		return codersdk.ReadBodyAsError(res)
	})
	if answer, ok := errors.AsType[*Error](err); ok && answer.StatusCode == http.StatusBadRequest && answer.Message == "Missing feature query parameter." {
		return nil
	}
	return withoutSecret(err, token)
}
