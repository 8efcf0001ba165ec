package coderd

import (
	"context"
	"time"
)

// The licensed features that this project uses.
const (
	FeatureExternalProvisioners = "external_provisioner_daemons"
	FeatureHighAvailability     = "high_availability"
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

// Feature is the entitlement of a feature and its usage.
type Feature struct {
	Entitlement Entitlement
	// Enabled reports that the feature is allowed and enabled.
	Enabled bool
	// Limit and Actual are nil if the feature has no limit.
	Limit, Actual *int64
}

// Entitlements is what the licenses of a Coder deployment allow.
type Entitlements struct {
	HasLicense bool
	Trial      bool
	Features   map[string]Feature
	// Warnings and Errors are Coder's messages for its administrator.
	Warnings, Errors []string
	// RefreshedAt is when Coder last computed the entitlements.
	RefreshedAt time.Time
}

// Of returns the entitlement of one feature.
func (e Entitlements) Of(feature string) Entitlement {
	if f, ok := e.Features[feature]; ok {
		return f.Entitlement
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
		if f.Entitlement.Allows() {
			return TierEnterprise
		}
	}
	return TierUnknown
}

// Entitlements reads what the licenses allow. It needs no token.
func (c *Client) Entitlements(ctx context.Context) (Entitlements, error) {
	var out Entitlements
	err := c.callWithoutToken(ctx, "reading what the licenses of Coder allow", func(ctx context.Context) error {
		e, err := c.sdk.Entitlements(ctx)
		if err != nil {
			return err
		}
		out = Entitlements{
			HasLicense: e.HasLicense, Trial: e.Trial, Features: map[string]Feature{},
			Warnings: boundTexts(e.Warnings), Errors: boundTexts(e.Errors), RefreshedAt: e.RefreshedAt,
		}
		for name, f := range e.Features {
			if len(name) > maxName {
				continue
			}
			out.Features[string(name)] = Feature{Entitlement: Entitlement(f.Entitlement), Enabled: f.Enabled, Limit: f.Limit, Actual: f.Actual}
		}
		return nil
	})
	return out, err
}
