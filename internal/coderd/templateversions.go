package coderd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// TemplateVersion is one version of a template's files, built or being built.
type TemplateVersion struct {
	ID uuid.UUID
	// TemplateID is nil until a template is made of the version.
	TemplateID *uuid.UUID
	Name       string
	Message    string
	FileID     uuid.UUID
	// Status of the build: pending, running, succeeded, failed, canceling,
	// canceled.
	Status string
	// Error is why the build failed.
	Error     string
	CreatedAt time.Time
	UpdatedAt time.Time
	// CreatedBy is a username.
	CreatedBy string
	// JobID is the build of the version.
	JobID uuid.UUID
	// Archived says that nobody is offered the version any more.
	Archived bool
	// ProvisionerTags choose the provisioners that build the version and its
	// workspaces. Coder adds scope and owner to those that were given.
	ProvisionerTags map[string]string
	// MatchedProvisioners is how many provisioners have these tags, and
	// AvailableProvisioners is how many of them were seen lately. Coder says it
	// only of a version whose build is not done; -1 is that it did not.
	MatchedProvisioners, AvailableProvisioners int
}

// NewTemplateVersion is a version to make of uploaded files.
type NewTemplateVersion struct {
	// TemplateID is nil for the first version, of which a template is made.
	TemplateID *uuid.UUID
	FileID     uuid.UUID
	Message    string
	// Name is unique within the template. Coder invents one where it is empty.
	Name string
	// Tags choose the provisioners that build the version and its workspaces.
	Tags map[string]string
	// Variables are values for the Terraform variables of the files.
	Variables []Variable
}

func newTemplateVersion(v codersdk.TemplateVersion) TemplateVersion {
	template := v.TemplateID
	if template != nil && *template == uuid.Nil {
		// So says Coder of a version of no template.
		template = nil
	}
	out := TemplateVersion{
		ID:              v.ID,
		TemplateID:      template,
		Name:            boundName(v.Name),
		Message:         boundText(v.Message),
		FileID:          v.Job.FileID,
		Status:          boundName(string(v.Job.Status)),
		Error:           boundText(v.Job.Error),
		CreatedAt:       v.CreatedAt,
		UpdatedAt:       v.UpdatedAt,
		CreatedBy:       boundName(v.CreatedBy.Username),
		JobID:           v.Job.ID,
		Archived:        v.Archived,
		ProvisionerTags: v.Job.Tags,

		MatchedProvisioners:   -1,
		AvailableProvisioners: -1,
	}
	if m := v.MatchedProvisioners; m != nil {
		out.MatchedProvisioners, out.AvailableProvisioners = m.Count, m.Available
	}
	return out
}

const (
	// versionsPerPage keeps one answer small: each version holds its readme.
	versionsPerPage = 200
	// maxVersions ends the pages of a server that has always more.
	maxVersions = 20_000
)

// TemplateVersions lists the versions of a template, the oldest first. Archived
// ones are left out.
func (c *Client) TemplateVersions(ctx context.Context, template uuid.UUID) ([]TemplateVersion, error) {
	return c.templateVersions(ctx, codersdk.TemplateVersionsByTemplateRequest{TemplateID: template})
}

// AllTemplateVersions is TemplateVersions with the archived ones.
func (c *Client) AllTemplateVersions(ctx context.Context, template uuid.UUID) ([]TemplateVersion, error) {
	return c.templateVersions(ctx, codersdk.TemplateVersionsByTemplateRequest{TemplateID: template, IncludeArchived: true})
}

func (c *Client) templateVersions(ctx context.Context, request codersdk.TemplateVersionsByTemplateRequest) ([]TemplateVersion, error) {
	var out []TemplateVersion
	request.Limit = versionsPerPage
	for {
		read := 0
		err := c.call(ctx, fmt.Sprintf("listing the versions of template %s", request.TemplateID), func(ctx context.Context) error {
			versions, err := c.sdk.TemplateVersionsByTemplate(ctx, request)
			for _, v := range versions {
				out = append(out, newTemplateVersion(v))
				request.AfterID = v.ID
			}
			read = len(versions)
			return err
		})
		if err != nil {
			return nil, err
		}
		if read < versionsPerPage {
			break
		}
		if len(out) > maxVersions {
			err := fmt.Errorf("it has more than %d versions", maxVersions)
			return nil, &Error{Op: fmt.Sprintf("listing the versions of template %s", request.TemplateID), Message: err.Error(), Err: err}
		}
	}
	slices.SortStableFunc(out, func(a, b TemplateVersion) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	return out, nil
}

// TemplateVersion reads one version.
func (c *Client) TemplateVersion(ctx context.Context, id uuid.UUID) (TemplateVersion, error) {
	var out TemplateVersion
	err := c.call(ctx, fmt.Sprintf("reading template version %s", id), func(ctx context.Context) error {
		v, err := c.sdk.TemplateVersion(ctx, id)
		out = newTemplateVersion(v)
		return err
	})
	return out, err
}

// CreateTemplateVersion queues the build of a version with Terraform. It does
// not become the active one. A name that the template has already is a conflict.
func (c *Client) CreateTemplateVersion(ctx context.Context, org uuid.UUID, v NewTemplateVersion) (TemplateVersion, error) {
	request := codersdk.CreateTemplateVersionRequest{
		Name:            v.Name,
		Message:         v.Message,
		StorageMethod:   codersdk.ProvisionerStorageMethodFile,
		FileID:          v.FileID,
		Provisioner:     codersdk.ProvisionerTypeTerraform,
		ProvisionerTags: v.Tags,
	}
	for _, variable := range v.Variables {
		request.UserVariableValues = append(request.UserVariableValues, codersdk.VariableValue{Name: variable.Name, Value: variable.Value})
	}
	if v.TemplateID != nil {
		request.TemplateID = *v.TemplateID
	}
	var out TemplateVersion
	err := c.call(ctx, fmt.Sprintf("creating a template version of file %s", v.FileID), func(ctx context.Context) error {
		created, err := c.sdk.CreateTemplateVersion(ctx, org, request)
		out = newTemplateVersion(created)
		return err
	})
	for _, variable := range v.Variables {
		// Shorter values stand in every text by chance.
		if len(variable.Value) >= shortestSecret {
			err = withoutSecret(err, variable.Value)
		}
	}
	return out, err
}

// shortestSecret is how long the value of a variable must be to be taken out of
// an error.
const shortestSecret = 4

// SetActiveVersion makes a version the one of which workspaces are built. Coder
// refuses one whose build has not succeeded.
func (c *Client) SetActiveVersion(ctx context.Context, template, version uuid.UUID) error {
	op := fmt.Sprintf("making version %s the active one of template %s", version, template)
	return c.call(ctx, op, func(ctx context.Context) error {
		// Coder's client reports success when this request could not be sent, so
		// it is made here.
		res, err := c.sdk.Request(ctx, http.MethodPatch, fmt.Sprintf("/api/v2/templates/%s/versions", template),
			codersdk.UpdateActiveTemplateVersion{ID: version})
		if err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return codersdk.ReadBodyAsError(res)
		}
		return res.Body.Close()
	})
}

// SetVersionMessage changes the message of a version and keeps its name.
func (c *Client) SetVersionMessage(ctx context.Context, id uuid.UUID, message string) error {
	return c.call(ctx, fmt.Sprintf("setting the message of template version %s", id), func(ctx context.Context) error {
		_, err := c.sdk.UpdateTemplateVersion(ctx, id, codersdk.PatchTemplateVersionRequest{Message: &message})
		return err
	})
}

// ArchiveVersion takes a version away from those that people are offered. One
// that is archived already is refused (400). The active one, and one of which a
// workspace is built, is a conflict.
func (c *Client) ArchiveVersion(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("archiving template version %s", id), func(ctx context.Context) error {
		return c.sdk.SetArchiveTemplateVersion(ctx, id, true)
	})
}

// CancelVersion asks the build of a version to end before it is done. One that
// is done already is refused (400).
func (c *Client) CancelVersion(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("cancelling the build of template version %s", id), func(ctx context.Context) error {
		return c.sdk.CancelTemplateVersion(ctx, id)
	})
}
