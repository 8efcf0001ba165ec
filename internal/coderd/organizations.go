package coderd

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

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
	var out Organization
	err := c.call(ctx, op, func(ctx context.Context) error {
		org, err := c.sdk.OrganizationByName(ctx, name)
		out = newOrganization(org)
		return err
	})
	return out, err
}

// Organizations lists all organizations that the token may see.
func (c *Client) Organizations(ctx context.Context) ([]Organization, error) {
	var out []Organization
	err := c.call(ctx, "listing the organizations", func(ctx context.Context) error {
		orgs, err := c.sdk.Organizations(ctx)
		for _, org := range orgs {
			out = append(out, newOrganization(org))
		}
		return err
	})
	return out, err
}
