package coderd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
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
	var out []License
	err := c.call(ctx, "listing the licenses of Coder", func(ctx context.Context) error {
		licenses, err := c.sdk.Licenses(ctx)
		for _, l := range licenses {
			out = append(out, newLicense(l))
		}
		return err
	})
	return out, err
}

// AddLicense adds a license. The error is IsConflict if Coder already has it, and IsInvalid, with
// the reason, if Coder does not accept it. White space around the text is ignored.
func (c *Client) AddLicense(ctx context.Context, jwt string) (License, error) {
	jwt = strings.TrimSpace(jwt)
	var out License
	err := c.call(ctx, "adding a license to Coder", func(ctx context.Context) error {
		l, err := c.sdk.AddLicense(ctx, codersdk.AddLicenseRequest{License: jwt})
		out = newLicense(l)
		return err
	})
	return out, withoutSecret(err, jwt)
}

// DeleteLicense deletes a license. It stops to apply at once.
func (c *Client) DeleteLicense(ctx context.Context, id int32) error {
	return c.call(ctx, fmt.Sprintf("deleting license %d of Coder", id), func(ctx context.Context) error {
		return c.sdk.DeleteLicense(ctx, id)
	})
}
