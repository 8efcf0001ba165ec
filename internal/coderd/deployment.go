package coderd

import (
	"context"
	"fmt"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
)

// BuildInfo is the public information about a Coder deployment.
type BuildInfo struct {
	// Version is the version of Coder, for example v2.30.0+1a2b3c4.
	Version string
	// DeploymentID does not change during the lifetime of the database.
	DeploymentID string
}

// BuildInfo reads the version and the deployment id. It needs no token.
func (c *Client) BuildInfo(ctx context.Context) (BuildInfo, error) {
	var out BuildInfo
	err := c.callWithoutToken(ctx, "reading the version of Coder", func(ctx context.Context) error {
		info, err := c.sdk.BuildInfo(ctx)
		out = BuildInfo{Version: boundName(info.Version), DeploymentID: boundName(info.DeploymentID)}
		return err
	})
	return out, err
}

// MaxTokenLifetime returns the maximum lifetime of a token of this user.
func (c *Client) MaxTokenLifetime(ctx context.Context, user string) (time.Duration, error) {
	op := fmt.Sprintf("reading the longest token lifetime of user %q", user)
	if err := checkNames(op, user); err != nil {
		return 0, err
	}
	config, err := get[codersdk.TokenConfig](ctx, c, op, fmt.Sprintf("/api/v2/users/%s/keys/tokens/tokenconfig", user), nil)
	return config.MaxTokenLifetime, err
}

// DefaultOrganization is an alias in Coder for the organization that every deployment has, whatever
// its name is.
const DefaultOrganization = "default"

// Organization is an organization. It owns templates, and through them workspaces.
type Organization struct {
	ID        uuid.UUID
	Name      string
	IsDefault bool
}

func newOrganization(o codersdk.Organization) Organization {
	return Organization{ID: o.ID, Name: boundName(o.Name), IsDefault: o.IsDefault}
}

// OrganizationByName reads an organization. For DefaultOrganization the result has the real name.
func (c *Client) OrganizationByName(ctx context.Context, name string) (Organization, error) {
	op := fmt.Sprintf("reading organization %q", name)
	if err := checkNames(op, name); err != nil {
		return Organization{}, err
	}
	return fetch(ctx, c, op, newOrganization, func(ctx context.Context) (codersdk.Organization, error) {
		return c.sdk.OrganizationByName(ctx, name)
	})
}

// Organizations lists all organizations that the token may see.
func (c *Client) Organizations(ctx context.Context) ([]Organization, error) {
	return fetchList(ctx, c, "listing the organizations", newOrganization, func(ctx context.Context) ([]codersdk.Organization, error) {
		return c.sdk.Organizations(ctx)
	})
}

// The licensed features that this project uses.
const (
	FeatureExternalProvisioners = "external_provisioner_daemons"
	FeatureHighAvailability     = "high_availability"
	FeatureServiceAccounts      = "service_accounts"
	FeatureWorkspaceProxy       = "workspace_proxy"

	featureCustomRoles           = "custom_roles"
	featureMultipleOrganizations = "multiple_organizations"
)

// Entitlement is whether the licenses allow a feature.
type Entitlement string

// The entitlements.
const (
	Entitled    Entitlement = "entitled"
	GracePeriod Entitlement = "grace_period"
	NotEntitled Entitlement = "not_entitled"
	// EntitlementUnknown is the entitlement of a feature that Coder does not return.
	EntitlementUnknown Entitlement = "unknown"
)

// Allows reports whether the feature may be used, possibly only during a grace period.
func (e Entitlement) Allows() bool { return e == Entitled || e == GracePeriod }

// LicenseTier is the tier of the licenses.
type LicenseTier string

// The tiers. Premium includes several organizations or custom roles, Enterprise does not.
const (
	TierNone       LicenseTier = "none"
	TierTrial      LicenseTier = "trial"
	TierEnterprise LicenseTier = "enterprise"
	TierPremium    LicenseTier = "premium"
	TierUnknown    LicenseTier = "unknown"
)

// Entitlements is what the licenses of a Coder deployment allow.
type Entitlements struct {
	HasLicense bool
	Trial      bool
	Features   map[string]Entitlement
}

// Of returns the entitlement of one feature.
func (e Entitlements) Of(feature string) Entitlement {
	if f, ok := e.Features[feature]; ok {
		return f
	}
	return EntitlementUnknown
}

// Tier derives the tier from the features.
func (e Entitlements) Tier() LicenseTier {
	switch {
	case !e.HasLicense:
		return TierNone
	case e.Trial:
		return TierTrial
	case e.Of(featureCustomRoles).Allows() || e.Of(featureMultipleOrganizations).Allows():
		return TierPremium
	}
	for _, f := range e.Features {
		if f.Allows() {
			return TierEnterprise
		}
	}
	return TierUnknown
}

// Entitlements reads what the licenses allow. It needs no token.
func (c *Client) Entitlements(ctx context.Context) (Entitlements, error) {
	var out Entitlements
	err := c.callWithoutToken(ctx, "reading the entitlements of Coder", func(ctx context.Context) error {
		e, err := c.sdk.Entitlements(ctx)
		if err != nil {
			return err
		}
		out = Entitlements{HasLicense: e.HasLicense, Trial: e.Trial, Features: map[string]Entitlement{}}
		for name, f := range e.Features {
			if len(name) > maxName {
				continue
			}
			out.Features[string(name)] = Entitlement(f.Entitlement)
		}
		return nil
	})
	return out, err
}
