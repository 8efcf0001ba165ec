package coderd

import (
	"context"
	"time"
)

// The features that this project needs a license for.
const (
	FeatureExternalProvisioners = "external_provisioner_daemons"
	FeatureHighAvailability     = "high_availability"
	FeatureWorkspaceProxy       = "workspace_proxy"

	featureCustomRoles           = "custom_roles"
	featureMultipleOrganizations = "multiple_organizations"
)

// Entitlement says whether the licenses allow a feature.
type Entitlement string

// The entitlements.
const (
	Entitled    Entitlement = "entitled"
	GracePeriod Entitlement = "grace_period"
	NotEntitled Entitlement = "not_entitled"
	// EntitlementUnknown is that of a feature of which Coder says nothing.
	EntitlementUnknown Entitlement = "unknown"
)

// Allows says that the feature may be used, be it for a last time.
func (e Entitlement) Allows() bool { return e == Entitled || e == GracePeriod }

// LicenseTier is what the licenses amount to.
type LicenseTier string

// The tiers. Premium has several organizations or custom roles, which Enterprise
// has not.
const (
	TierNone       LicenseTier = "none"
	TierTrial      LicenseTier = "trial"
	TierEnterprise LicenseTier = "enterprise"
	TierPremium    LicenseTier = "premium"
	TierUnknown    LicenseTier = "unknown"
)

// Feature is what the licenses say about a feature, and how much of it is used.
type Feature struct {
	Entitlement Entitlement
	// Enabled says that it is allowed and switched on.
	Enabled bool
	// Limit and Actual are nil where the feature is not counted.
	Limit, Actual *int64
}

// Entitlements is what the licenses of a Coder allow.
type Entitlements struct {
	HasLicense bool
	Trial      bool
	Features   map[string]Feature
	// Warnings and Errors are Coder's sentences for its administrator.
	Warnings, Errors []string
	// RefreshedAt is when Coder last computed this.
	RefreshedAt time.Time
}

// Of is the entitlement of one feature.
func (e Entitlements) Of(feature string) Entitlement {
	if f, ok := e.Features[feature]; ok {
		return f.Entitlement
	}
	return EntitlementUnknown
}

// Tier is what the licenses amount to.
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

// Entitlements reads what the licenses allow. Coder tells it to anybody.
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
