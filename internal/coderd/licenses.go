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

// License is a license that Coder holds. Coder never gives out its text.
type License struct {
	// ID counts within one deployment.
	ID int32
	// UUID is that of the claims, or one of Coder's own for a license without.
	UUID       uuid.UUID
	UploadedAt time.Time
	Claims     LicenseClaims
}

// Is says whether this license is the one with these claims. Coder shows the
// claims of a license and not its text, so the claims are all that can be
// compared.
func (l License) Is(claims LicenseClaims) bool {
	return len(claims.raw) > 0 && string(l.Claims.raw) == string(claims.raw)
}

func newLicense(l codersdk.License) License {
	// What came as JSON goes back to JSON.
	raw, _ := json.Marshal(l.Claims)
	return License{ID: l.ID, UUID: l.UUID, UploadedAt: l.UploadedAt, Claims: newLicenseClaims(raw)}
}

// Licenses lists the licenses in the order in which they came, those that have
// run out too.
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

// AddLicense gives Coder a license. A text that Coder holds is a conflict; one
// that it does not accept is invalid, and the error says why. White space around
// the text does not matter.
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

// DeleteLicense takes a license away. What it allowed ends at once.
func (c *Client) DeleteLicense(ctx context.Context, id int32) error {
	return c.call(ctx, fmt.Sprintf("deleting license %d of Coder", id), func(ctx context.Context) error {
		return c.sdk.DeleteLicense(ctx, id)
	})
}
