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
)

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
	return fetchList(ctx, c, "listing the licenses of Coder", newLicense, func(ctx context.Context) ([]codersdk.License, error) {
		return c.sdk.Licenses(ctx)
	})
}

// AddLicense adds a license. The error is IsConflict if Coder already has it, and IsInvalid, with
// the reason, if Coder does not accept it. White space around the text is ignored.
func (c *Client) AddLicense(ctx context.Context, jwt string) (License, error) {
	jwt = strings.TrimSpace(jwt)
	out, err := fetch(ctx, c, "adding a license to Coder", newLicense, func(ctx context.Context) (codersdk.License, error) {
		return c.sdk.AddLicense(ctx, codersdk.AddLicenseRequest{License: jwt})
	})
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
	if err != nil {
		return LicenseClaims{}, errNoLicense
	}
	claims := newLicenseClaims(payload)
	if claims.raw == nil {
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
	number, ok := claim.(json.Number)
	if !ok {
		return nil
	}
	seconds, err := number.Float64()
	if err != nil {
		return nil
	}
	at := time.Unix(int64(seconds), 0).UTC()
	return &at
}
