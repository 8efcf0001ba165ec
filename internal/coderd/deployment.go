package coderd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"k8s.io/utils/ptr"
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
	config, err := get[codersdk.TokenConfig](ctx, c, fmt.Sprintf("reading the longest token lifetime of user %q", user),
		fmt.Sprintf("/api/v2/users/%s/keys/tokens/tokenconfig", user), nil, user)
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
	return fetch(ctx, c, fmt.Sprintf("reading organization %q", name), newOrganization, with(c.sdk.OrganizationByName, name), name)
}

// Organizations lists all organizations that the token may see.
func (c *Client) Organizations(ctx context.Context) ([]Organization, error) {
	return fetchList(ctx, c, "listing the organizations", newOrganization, c.sdk.Organizations)
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
			if len(name) <= maxName {
				out.Features[string(name)] = Entitlement(f.Entitlement)
			}
		}
		return nil
	})
	return out, err
}

// Elapsed reports whether d has passed since a time that another host has recorded: Coder, kube-apiserver or another replica,
// whose clock may be wrong. A time that is later than d from now counts as elapsed, so that it delays nothing for longer than
// twice d.
func Elapsed(now, since time.Time, d time.Duration) bool {
	return !now.Before(since.Add(d)) || since.After(now.Add(d))
}

// License is a license in Coder. Coder never returns its text.
type License struct {
	// ID is the number of the license in one deployment.
	ID int32
	// UUID is the UUID of the claims, or one that Coder generated for a license without.
	UUID       uuid.UUID
	UploadedAt time.Time
	Claims     LicenseClaims
}

// Is reports whether this license has these claims. Coder returns the claims of a license but not
// its text, so only the claims can be compared.
func (l License) Is(claims LicenseClaims) bool {
	return len(claims.raw) > 0 && string(l.Claims.raw) == string(claims.raw)
}

func newLicense(l codersdk.License) License {
	// Claims that were decoded from JSON can always be encoded again.
	raw, _ := json.Marshal(l.Claims)
	return License{ID: l.ID, UUID: l.UUID, UploadedAt: l.UploadedAt, Claims: newLicenseClaims(raw)}
}

// Licenses lists the licenses in the order in which they were added, including expired ones.
func (c *Client) Licenses(ctx context.Context) ([]License, error) {
	return fetchList(ctx, c, "listing the licenses of Coder", newLicense, c.sdk.Licenses)
}

// AddLicense adds a license. The error is IsConflict if Coder already has it, and IsInvalid, with
// the reason, if Coder does not accept it. White space around the text is ignored.
func (c *Client) AddLicense(ctx context.Context, jwt string) (License, error) {
	jwt = strings.TrimSpace(jwt)
	out, err := fetch(ctx, c, "adding a license to Coder", newLicense, with(c.sdk.AddLicense, codersdk.AddLicenseRequest{License: jwt}))
	return out, withoutSecret(err, jwt)
}

// DeleteLicense deletes a license. It stops to apply at once.
func (c *Client) DeleteLicense(ctx context.Context, id int32) error {
	return c.call(ctx, fmt.Sprintf("deleting license %d of Coder", id), func(ctx context.Context) error {
		return c.sdk.DeleteLicense(ctx, id)
	})
}

// LicenseClaims are the claims of a license. A claim that is missing or has an unexpected type has
// the zero value.
type LicenseClaims struct {
	// UUID is the id of the license. Old licenses have none.
	UUID uuid.UUID
	// NotBefore is when its term begins.
	NotBefore *time.Time
	// ExpiresAt is when its term ends and its grace period begins.
	ExpiresAt *time.Time
	// GraceEndsAt is when its grace period ends. It equals ExpiresAt if there is no grace period.
	GraceEndsAt *time.Time
	Trial       bool

	// raw contains all claims, as JSON with sorted keys.
	raw []byte
}

// errNoLicense never contains the text, because a license is a secret.
var errNoLicense = errors.New("not a license: it must be a JSON web token, " +
	"three parts with dots between them of which the second holds the claims; copy the whole text that Coder sent you")

// Identity returns an id that depends only on the claims: the UUID in them, or one that is derived
// from them. For a license without a UUID Coder generates a random one, which is not known in
// advance.
func (c LicenseClaims) Identity() uuid.UUID {
	if c.UUID != uuid.Nil {
		return c.UUID
	}
	return uuid.NewSHA1(uuid.NameSpaceOID, c.raw)
}

// ParseLicense reads the claims from a license's text. It does not verify the signature; Coder does
// when the license is added. White space around the text is ignored.
func ParseLicense(jwt string) (LicenseClaims, error) {
	parts := strings.Split(strings.TrimSpace(jwt), ".")
	if len(parts) != 3 {
		return LicenseClaims{}, errNoLicense
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	claims := newLicenseClaims(payload)
	if err != nil || claims.raw == nil {
		return LicenseClaims{}, errNoLicense
	}
	return claims, nil
}

// newLicenseClaims parses claims. If they cannot be parsed, raw is nil in the result.
func newLicenseClaims(payload []byte) LicenseClaims {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	// Keep numbers as they are, so that claims can be compared.
	decoder.UseNumber()
	var all map[string]any
	if decoder.Decode(&all) != nil || all == nil {
		return LicenseClaims{}
	}
	out := LicenseClaims{
		NotBefore:   numericDate(all["nbf"]),
		ExpiresAt:   numericDate(all["license_expires"]),
		GraceEndsAt: numericDate(all["exp"]),
	}
	out.raw, _ = json.Marshal(all)
	if id, ok := all["jti"].(string); ok {
		out.UUID, _ = uuid.Parse(id)
	}
	out.Trial, _ = all["trial"].(bool)
	return out
}

// numericDate parses a JWT date: seconds since 1970, possibly with a fraction.
func numericDate(claim any) *time.Time {
	number, _ := claim.(json.Number)
	seconds, err := number.Float64()
	if err != nil {
		return nil
	}
	return ptr.To(time.Unix(int64(seconds), 0).UTC())
}
