package coderd

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// Template is a template of Coder.
type Template struct {
	ID               uuid.UUID
	OrganizationID   uuid.UUID
	OrganizationName string
	Name             string
	DisplayName      string
	Description      string
	Icon             string
	ActiveVersionID  uuid.UUID
	// Deprecated reports that no new workspace can be created from it.
	Deprecated         bool
	DeprecationMessage string
	CreatedAt          time.Time
	UpdatedAt          time.Time
	TemplatePolicy
}

// TemplatePolicy is the part of a template's policy that every Coder supports. The rest needs a
// license, and this client does not change it.
type TemplatePolicy struct {
	// DefaultTTL is the time after which workspaces stop unless their owners chose another one. 0
	// means never.
	DefaultTTL time.Duration
	// ActivityBump is by how much activity in a workspace postpones its stop.
	ActivityBump time.Duration
	// AllowUserCancelWorkspaceJobs allows owners to cancel builds of their workspaces.
	AllowUserCancelWorkspaceJobs bool
	// CORSBehavior is the CORS behavior of apps that are reached through Coder: simple or passthru.
	CORSBehavior string
	// UseClassicParameterFlow selects the form from before Coder had dynamic parameters.
	UseClassicParameterFlow bool
}

// NewTemplate is a template to create from a version that has no template yet.
type NewTemplate struct {
	Name, DisplayName, Description, Icon string
	VersionID                            uuid.UUID
	// The other fields are as in TemplatePolicy. Nil means Coder's default.
	DefaultTTL, ActivityBump                              *time.Duration
	AllowUserCancelWorkspaceJobs, UseClassicParameterFlow *bool
	CORSBehavior                                          *string
}

func newTemplate(t codersdk.Template) Template {
	return Template{
		ID:                 t.ID,
		OrganizationID:     t.OrganizationID,
		OrganizationName:   boundName(t.OrganizationName),
		Name:               boundName(t.Name),
		DisplayName:        boundName(t.DisplayName),
		Description:        boundText(t.Description),
		Icon:               boundText(t.Icon),
		ActiveVersionID:    t.ActiveVersionID,
		Deprecated:         t.Deprecated,
		DeprecationMessage: boundText(t.DeprecationMessage),
		CreatedAt:          t.CreatedAt,
		UpdatedAt:          t.UpdatedAt,
		TemplatePolicy: TemplatePolicy{
			DefaultTTL:                   time.Duration(t.DefaultTTLMillis) * time.Millisecond,
			ActivityBump:                 time.Duration(t.ActivityBumpMillis) * time.Millisecond,
			AllowUserCancelWorkspaceJobs: t.AllowUserCancelWorkspaceJobs,
			CORSBehavior:                 boundName(string(t.CORSBehavior)),
			UseClassicParameterFlow:      t.UseClassicParameterFlow,
		},
	}
}

// Templates lists all templates that the token may see, including deprecated ones. Coder returns
// them without pages.
func (c *Client) Templates(ctx context.Context) ([]Template, error) {
	var out []Template
	seen := map[uuid.UUID]bool{}
	// Coder's default omits deprecated templates, and each value of the filter returns one part. A
	// template that becomes deprecated in between is in both.
	for _, query := range []string{"deprecated:false", "deprecated:true"} {
		err := c.call(ctx, "listing the templates", func(ctx context.Context) error {
			templates, err := c.sdk.Templates(ctx, codersdk.TemplateFilter{SearchQuery: query})
			for _, t := range templates {
				if !seen[t.ID] {
					seen[t.ID] = true
					out = append(out, newTemplate(t))
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// TemplateByName reads a template of an organization.
func (c *Client) TemplateByName(ctx context.Context, org uuid.UUID, name string) (Template, error) {
	op := fmt.Sprintf("reading template %q", name)
	if err := checkNames(op, name); err != nil {
		return Template{}, err
	}
	return fetch(ctx, c, op, newTemplate, func(ctx context.Context) (codersdk.Template, error) {
		return c.sdk.TemplateByName(ctx, org, name)
	})
}

// Template reads a template by its id.
func (c *Client) Template(ctx context.Context, id uuid.UUID) (Template, error) {
	return fetch(ctx, c, fmt.Sprintf("reading template %s", id), newTemplate, func(ctx context.Context) (codersdk.Template, error) {
		return c.sdk.Template(ctx, id)
	})
}

// CreateTemplate creates a template. Its version may still be building. The error is IsConflict if
// the name exists in the organization.
func (c *Client) CreateTemplate(ctx context.Context, org uuid.UUID, t NewTemplate) (Template, error) {
	request := codersdk.CreateTemplateRequest{
		Name:                         t.Name,
		DisplayName:                  t.DisplayName,
		Description:                  t.Description,
		Icon:                         t.Icon,
		VersionID:                    t.VersionID,
		DefaultTTLMillis:             millis(t.DefaultTTL),
		ActivityBumpMillis:           millis(t.ActivityBump),
		AllowUserCancelWorkspaceJobs: t.AllowUserCancelWorkspaceJobs,
		UseClassicParameterFlow:      t.UseClassicParameterFlow,
		CORSBehavior:                 (*codersdk.CORSBehavior)(t.CORSBehavior),
	}
	return fetch(ctx, c, fmt.Sprintf("creating template %q", t.Name), newTemplate, func(ctx context.Context) (codersdk.Template, error) {
		return c.sdk.CreateTemplate(ctx, org, request)
	})
}

// DeleteTemplate deletes a template. Coder refuses this (400) while it has workspaces.
func (c *Client) DeleteTemplate(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("deleting template %s", id), func(ctx context.Context) error {
		return c.sdk.DeleteTemplate(ctx, id)
	})
}
