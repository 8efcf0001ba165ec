package coderd

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// TemplateVersion is one version of a template's files, built or being built.
type TemplateVersion struct {
	ID uuid.UUID
	// TemplateID is nil until a template is created from the version.
	TemplateID *uuid.UUID
	Name       string
	Message    string
	FileID     uuid.UUID
	// Status is the status of the build: pending, running, succeeded, failed, canceling or
	// canceled.
	Status string
	// Error is the reason why the build failed.
	Error     string
	CreatedAt time.Time
	UpdatedAt time.Time
	// StartedAt and CompletedAt are when the build started and ended, or nil.
	StartedAt, CompletedAt *time.Time
	// CreatedBy is a username.
	CreatedBy string
	// Archived reports that the version is no longer offered to users.
	Archived bool
	// ProvisionerTags select the provisioners that build the version and its workspaces. Coder adds
	// scope and owner to the requested tags.
	ProvisionerTags map[string]string
	// MatchedProvisioners is the number of provisioners with these tags, and AvailableProvisioners
	// how many of them were seen recently. Coder returns them only while the build has not
	// finished; otherwise they are -1.
	MatchedProvisioners, AvailableProvisioners int
}

// NewTemplateVersion is a version to create from uploaded files.
type NewTemplateVersion struct {
	// TemplateID is nil for the first version of a template, which is created from it.
	TemplateID *uuid.UUID
	FileID     uuid.UUID
	Message    string
	// Name is unique within the template. If it is empty, Coder generates one.
	Name string
	// Tags select the provisioners that build the version and its workspaces.
	Tags map[string]string
	// Variables are values for the Terraform variables of the files.
	Variables []Variable
}

// importError returns the error of the build of a version. Coder imports the presets of a template without a check, so
// what is wrong with them is an error of its database.
func importError(text string) string {
	for constraint, problem := range map[string]string{
		"idx_unique_preset_name":               `two presets (data "coder_workspace_preset") of the template have the same name; give each its own`,
		"idx_template_version_presets_default": `two presets (data "coder_workspace_preset") of the template are the default; set default = true in one only`,
	} {
		if strings.Contains(text, duplicateKey) && strings.Contains(text, constraint) {
			return problem
		}
	}
	return text
}

func newTemplateVersion(v codersdk.TemplateVersion) TemplateVersion {
	template := v.TemplateID
	if template != nil && *template == uuid.Nil {
		// Coder returns this for a version without a template.
		template = nil
	}
	out := TemplateVersion{
		ID:              v.ID,
		TemplateID:      template,
		Name:            boundName(v.Name),
		Message:         boundText(v.Message),
		FileID:          v.Job.FileID,
		Status:          boundName(string(v.Job.Status)),
		Error:           boundText(importError(v.Job.Error)),
		CreatedAt:       v.CreatedAt,
		UpdatedAt:       v.UpdatedAt,
		StartedAt:       v.Job.StartedAt,
		CompletedAt:     v.Job.CompletedAt,
		CreatedBy:       boundName(v.CreatedBy.Username),
		Archived:        v.Archived,
		ProvisionerTags: boundTags(v.Job.Tags),

		MatchedProvisioners:   -1,
		AvailableProvisioners: -1,
	}
	if m := v.MatchedProvisioners; m != nil {
		out.MatchedProvisioners, out.AvailableProvisioners = m.Count, m.Available
	}
	return out
}

// Size returns the approximate size of the version in memory, in bytes.
func (v TemplateVersion) Size() int64 {
	size := versionBytes + len(v.Name) + len(v.Message) + len(v.Status) + len(v.Error) + len(v.CreatedBy)
	for name, value := range v.ProvisionerTags {
		size += tagBytes + len(name) + len(value)
	}
	return int64(size)
}

const (
	// versionBytes and tagBytes are the sizes of a version and of a tag without their texts.
	versionBytes, tagBytes = 350, 50
	// versionsPerPage keeps a response small, because each version includes its readme.
	versionsPerPage = 200
	// maxVersions stops reading pages from a server that always returns another one.
	maxVersions = 20_000
)

// TemplateVersions lists the versions of a template, the oldest first, without archived ones.
func (c *Client) TemplateVersions(ctx context.Context, template uuid.UUID) ([]TemplateVersion, error) {
	return c.templateVersions(ctx, codersdk.TemplateVersionsByTemplateRequest{TemplateID: template})
}

// AllTemplateVersions is like TemplateVersions, and includes archived versions.
func (c *Client) AllTemplateVersions(ctx context.Context, template uuid.UUID) ([]TemplateVersion, error) {
	return c.templateVersions(ctx, codersdk.TemplateVersionsByTemplateRequest{TemplateID: template, IncludeArchived: true})
}

func (c *Client) templateVersions(ctx context.Context, request codersdk.TemplateVersionsByTemplateRequest) ([]TemplateVersion, error) {
	var out []TemplateVersion
	var bytes int64
	request.Limit = versionsPerPage
	op := fmt.Sprintf("listing the versions of template %s", request.TemplateID)
	for {
		read := 0
		err := c.call(ctx, op, func(ctx context.Context) error {
			versions, err := c.sdk.TemplateVersionsByTemplate(ctx, request)
			for _, v := range versions {
				out = append(out, newTemplateVersion(v))
				bytes += out[len(out)-1].Size()
				request.AfterID = v.ID
			}
			read = len(versions)
			return err
		})
		if err != nil {
			return nil, err
		}
		// Each page may have maxListBytes, so all pages together must be limited too.
		if bytes > maxListBytes || len(out) > maxVersions {
			return nil, &Error{Op: op, Message: fmt.Sprintf(
				"it has more than %d versions, or versions of more than %s; archive versions that are not needed", maxVersions, size(maxListBytes))}
		}
		if read < versionsPerPage {
			break
		}
	}
	slices.SortStableFunc(out, func(a, b TemplateVersion) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID.String(), b.ID.String()))
	})
	return out, nil
}

// TemplateVersion reads one version.
func (c *Client) TemplateVersion(ctx context.Context, id uuid.UUID) (TemplateVersion, error) {
	return fetch(ctx, c, fmt.Sprintf("reading template version %s", id), newTemplateVersion, func(ctx context.Context) (codersdk.TemplateVersion, error) {
		return c.sdk.TemplateVersion(ctx, id)
	})
}

// CreateTemplateVersion queues the Terraform build of a version. The version does not become the
// active one. The error is IsConflict if the template already has the name.
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
	op := fmt.Sprintf("creating a template version of file %s", v.FileID)
	out, err := fetch(ctx, c, op, newTemplateVersion, func(ctx context.Context) (codersdk.TemplateVersion, error) {
		return c.sdk.CreateTemplateVersion(ctx, org, request)
	})
	for _, variable := range v.Variables {
		// Shorter values occur in texts by chance.
		if len(variable.Value) >= shortestSecret {
			err = withoutSecret(err, variable.Value)
		}
	}
	return out, err
}

// shortestSecret is the minimum length of a variable's value to be removed from errors.
const shortestSecret = 4

// SetActiveVersion makes a version the active one, from which workspaces are built. Coder refuses a
// version whose build has not succeeded.
func (c *Client) SetActiveVersion(ctx context.Context, template, version uuid.UUID) error {
	op := fmt.Sprintf("making version %s the active one of template %s", version, template)
	return c.call(ctx, op, func(ctx context.Context) error {
		// Coder's client returns success if it could not send this request, so the request is sent
		// here.
		return c.request(ctx, http.MethodPatch, fmt.Sprintf("/api/v2/templates/%s/versions", template),
			codersdk.UpdateActiveTemplateVersion{ID: version}, http.StatusOK, ignore)
	})
}

// ArchiveVersion archives a version, so that it is no longer offered to users. Coder refuses (400)
// a version that is archived already. The error is IsConflict if the version is active or used by a
// workspace.
func (c *Client) ArchiveVersion(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("archiving template version %s", id), func(ctx context.Context) error {
		return c.sdk.SetArchiveTemplateVersion(ctx, id, true)
	})
}

// CancelVersion requests to cancel the build of a version. Coder refuses this (400) if the build
// has finished.
func (c *Client) CancelVersion(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("cancelling the build of template version %s", id), func(ctx context.Context) error {
		return c.sdk.CancelTemplateVersion(ctx, id)
	})
}
