package coderd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// PrimaryProxy is the name under which Coder lists itself among the proxies.
const PrimaryProxy = "primary"

// DefaultProxyIcon is what a proxy is given that is to have no icon of its own,
// because Coder changes no proxy without one. Coder's command line offers the
// same one.
const DefaultProxyIcon = "/emojis/1f5fa.png"

// ProxyStatus is what Coder sees of a proxy.
type ProxyStatus string

// The states of a proxy.
const (
	ProxyHealthy     ProxyStatus = "ok"
	ProxyUnreachable ProxyStatus = "unreachable"
	ProxyUnhealthy   ProxyStatus = "unhealthy"
	// ProxyUnregistered is a proxy that has not yet come with its token.
	ProxyUnregistered ProxyStatus = "unregistered"
	// ProxyUnknown is one at which Coder has not looked yet.
	ProxyUnknown ProxyStatus = "unknown"
)

// WorkspaceProxy is a proxy that Coder knows.
type WorkspaceProxy struct {
	ID          uuid.UUID
	Name        string
	DisplayName string
	Icon        string
	// PathAppURL and WildcardHostname are what the proxy itself told Coder. They
	// are empty until it has.
	PathAppURL       string
	WildcardHostname string
	Healthy          bool
	Status           ProxyStatus
	// Errors and Warnings are what Coder found when it last looked.
	Errors, Warnings []string
	Version          string
	DerpEnabled      bool
	DerpOnly         bool
	CreatedAt        time.Time
	// Deleted is only ever seen when a proxy is read by its id: Coder keeps what is
	// deleted.
	Deleted bool
}

// Primary says that this is Coder itself and no proxy that could be changed.
func (p WorkspaceProxy) Primary() bool { return strings.EqualFold(p.Name, PrimaryProxy) }

// Matches says whether the proxy has these values, after what
// CreateWorkspaceProxy and UpdateWorkspaceProxy put in place of empty ones.
func (p WorkspaceProxy) Matches(name, displayName, icon string) bool {
	displayName, icon = proxyDefaults(name, displayName, icon)
	return p.Name == name && p.DisplayName == displayName && p.Icon == icon
}

// proxyDefaults fills in what may be empty when a proxy is made, but not when it
// is changed.
func proxyDefaults(name, displayName, icon string) (string, string) {
	if displayName == "" {
		displayName = name
	}
	if icon == "" {
		icon = DefaultProxyIcon
	}
	return displayName, icon
}

func newWorkspaceProxy(p codersdk.WorkspaceProxy) WorkspaceProxy {
	return WorkspaceProxy{
		ID: p.ID, Name: boundName(p.Name), DisplayName: boundName(p.DisplayName), Icon: boundText(p.IconURL),
		PathAppURL: boundName(p.PathAppURL), WildcardHostname: boundName(p.WildcardHostname),
		Healthy: p.Healthy, Status: ProxyStatus(boundName(string(p.Status.Status))), Errors: boundTexts(p.Status.Report.Errors), Warnings: boundTexts(p.Status.Report.Warnings),
		Version: boundName(p.Version), DerpEnabled: p.DerpEnabled, DerpOnly: p.DerpOnly, CreatedAt: p.CreatedAt, Deleted: p.Deleted,
	}
}

// CheckProxyName says what is wrong with a name of a workspace proxy that is to
// be made. It is nil for a good one.
func CheckProxyName(name string) error {
	switch {
	case !plainName.MatchString(name):
		return fmt.Errorf("%q must consist of %s", name, plainNameRule)
	case strings.EqualFold(name, PrimaryProxy):
		return fmt.Errorf("%q is the name of Coder itself", name)
	case uuid.Validate(name) == nil:
		return fmt.Errorf("%q looks like an id, and Coder would take it for one", name)
	}
	return nil
}

// WorkspaceProxies lists the proxies that are not deleted. The first is Coder
// itself.
func (c *Client) WorkspaceProxies(ctx context.Context) ([]WorkspaceProxy, error) {
	var out []WorkspaceProxy
	err := c.call(ctx, "listing the workspace proxies of Coder", func(ctx context.Context) error {
		proxies, err := c.sdk.WorkspaceProxies(ctx)
		for _, p := range proxies.Regions {
			out = append(out, newWorkspaceProxy(p))
		}
		return err
	})
	return out, err
}

// WorkspaceProxyByName reads a proxy that is not deleted. The case of the name
// matters here, though no two names may differ in case alone.
func (c *Client) WorkspaceProxyByName(ctx context.Context, name string) (WorkspaceProxy, error) {
	op := fmt.Sprintf("reading workspace proxy %q", name)
	if err := CheckProxyName(name); err != nil && !strings.EqualFold(name, PrimaryProxy) {
		return WorkspaceProxy{}, notThere(op, name, err.Error())
	}
	return c.readWorkspaceProxy(ctx, op, name)
}

// WorkspaceProxyByID reads a proxy, a deleted one too.
func (c *Client) WorkspaceProxyByID(ctx context.Context, id uuid.UUID) (WorkspaceProxy, error) {
	return c.readWorkspaceProxy(ctx, fmt.Sprintf("reading workspace proxy %s", id), id.String())
}

func (c *Client) readWorkspaceProxy(ctx context.Context, op, query string) (WorkspaceProxy, error) {
	var out WorkspaceProxy
	err := c.call(ctx, op, func(ctx context.Context) error {
		p, err := c.sdk.WorkspaceProxyByName(ctx, query)
		out = newWorkspaceProxy(p)
		return err
	})
	return out, err
}

// CreateWorkspaceProxy makes a proxy and gives the token with which it comes to
// Coder. Coder tells it this once. A name that exists, in whatever case, is a
// conflict. An empty display name is the name, an empty icon DefaultProxyIcon.
func (c *Client) CreateWorkspaceProxy(ctx context.Context, name, displayName, icon string) (WorkspaceProxy, string, error) {
	op := fmt.Sprintf("creating workspace proxy %q", name)
	if err := CheckProxyName(name); err != nil {
		return WorkspaceProxy{}, "", badName(op, err)
	}
	displayName, icon = proxyDefaults(name, displayName, icon)
	var out codersdk.UpdateWorkspaceProxyResponse
	err := c.call(ctx, op, func(ctx context.Context) error {
		var err error
		out, err = c.sdk.CreateWorkspaceProxy(ctx, codersdk.CreateWorkspaceProxyRequest{Name: name, DisplayName: displayName, Icon: icon})
		return err
	})
	return newWorkspaceProxy(out.Proxy), out.ProxyToken, err
}

// UpdateWorkspaceProxy gives a proxy these values, and a new token if told so;
// the old token is refused from then on. Without a new token the one that is
// given back is empty. Empty values become what CreateWorkspaceProxy says. A name
// that another proxy has is a conflict.
func (c *Client) UpdateWorkspaceProxy(
	ctx context.Context, id uuid.UUID, name, displayName, icon string, regenerateToken bool,
) (WorkspaceProxy, string, error) {
	op := fmt.Sprintf("changing workspace proxy %q", name)
	if err := CheckProxyName(name); err != nil {
		return WorkspaceProxy{}, "", badName(op, err)
	}
	displayName, icon = proxyDefaults(name, displayName, icon)
	var out codersdk.UpdateWorkspaceProxyResponse
	err := c.call(ctx, op, func(ctx context.Context) error {
		var err error
		out, err = c.sdk.PatchWorkspaceProxy(ctx, codersdk.PatchWorkspaceProxy{
			ID: id, Name: name, DisplayName: displayName, Icon: icon, RegenerateToken: regenerateToken,
		})
		return err
	})
	return newWorkspaceProxy(out.Proxy), out.ProxyToken, err
}

// DeleteWorkspaceProxy deletes a proxy. Its token is refused from then on, and
// its name is free. To delete it again does nothing.
func (c *Client) DeleteWorkspaceProxy(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("deleting workspace proxy %s", id), func(ctx context.Context) error {
		return c.sdk.DeleteWorkspaceProxyByID(ctx, id)
	})
}
