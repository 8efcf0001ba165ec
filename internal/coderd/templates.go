package coderd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"k8s.io/utils/ptr"
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
	return fetch(ctx, c, fmt.Sprintf("reading template %q", name), newTemplate, func(ctx context.Context) (codersdk.Template, error) {
		return c.sdk.TemplateByName(ctx, org, name)
	}, name)
}

// Template reads a template by its id.
func (c *Client) Template(ctx context.Context, id uuid.UUID) (Template, error) {
	return fetch(ctx, c, fmt.Sprintf("reading template %s", id), newTemplate, with(c.sdk.Template, id))
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

// TemplateEdit is a change of a template's metadata and policy. Nil keeps a value.
type TemplateEdit struct {
	DisplayName, Description, Icon *string
	// The other fields are as in TemplatePolicy.
	DefaultTTL, ActivityBump                              *time.Duration
	AllowUserCancelWorkspaceJobs, UseClassicParameterFlow *bool
	CORSBehavior                                          *string
}

// UpdateTemplate changes only the fields that are set in the edit.
//
// Before Coder 2.34 the request replaces the whole policy of a template: an omitted number or
// boolean is reset. Since 2.34 an omitted field keeps its value. Therefore the template is read,
// and every field is sent explicitly, which has the same effect in all versions. If another client
// changes the policy between the two requests, its change is lost; Coder has no way to prevent
// that.
func (c *Client) UpdateTemplate(ctx context.Context, id uuid.UUID, wanted TemplateEdit) (Template, error) {
	var out Template
	err := c.call(ctx, fmt.Sprintf("updating template %s", id), func(ctx context.Context) error {
		current, err := c.sdk.Template(ctx, id)
		if err != nil {
			return err
		}
		out = newTemplate(current)
		request, err := keepPolicy(current)
		changed := []bool{
			edit(&request.DisplayName, wanted.DisplayName),
			edit(&request.Description, wanted.Description),
			edit(&request.Icon, wanted.Icon),
			edit(&request.DefaultTTLMillis, millis(wanted.DefaultTTL)),
			edit(&request.ActivityBumpMillis, millis(wanted.ActivityBump)),
			edit(&request.AllowUserCancelWorkspaceJobs, wanted.AllowUserCancelWorkspaceJobs),
			edit(&request.UseClassicParameterFlow, wanted.UseClassicParameterFlow),
			edit(&request.CORSBehavior, (*codersdk.CORSBehavior)(wanted.CORSBehavior)),
		}
		if err != nil || !slices.Contains(changed, true) {
			return err
		}
		var updated codersdk.Template
		err = c.request(ctx, http.MethodPatch, fmt.Sprintf("/api/v2/templates/%s", id), request, http.StatusOK, into(&updated))
		if err == nil {
			out = newTemplate(updated)
		}
		if seen, ok := ctx.Value(answerKey{}).(*answer); ok && seen.status == http.StatusNotModified {
			// Another client made the same change first. Coder 2.34 returns 200 in this case.
			return nil
		}
		return err
	})
	if err != nil {
		return Template{}, err
	}
	return out, nil
}

// templatePatch is the body of the request. Coder's own type omits zero and false. Fields that are
// not state are missing here, so that no version changes them: update_workspace_last_used_at,
// update_workspace_dormant_at and disable_everyone_group_access are commands, and
// deprecation_message keeps its value.
type templatePatch struct {
	Name                           string                                `json:"name"`
	DisplayName                    string                                `json:"display_name"`
	Description                    string                                `json:"description"`
	Icon                           string                                `json:"icon"`
	DefaultTTLMillis               int64                                 `json:"default_ttl_ms"`
	ActivityBumpMillis             int64                                 `json:"activity_bump_ms"`
	AutostopRequirement            codersdk.TemplateAutostopRequirement  `json:"autostop_requirement"`
	AutostartRequirement           codersdk.TemplateAutostartRequirement `json:"autostart_requirement"`
	AllowUserAutostart             bool                                  `json:"allow_user_autostart"`
	AllowUserAutostop              bool                                  `json:"allow_user_autostop"`
	AllowUserCancelWorkspaceJobs   bool                                  `json:"allow_user_cancel_workspace_jobs"`
	FailureTTLMillis               int64                                 `json:"failure_ttl_ms"`
	TimeTilDormantMillis           int64                                 `json:"time_til_dormant_ms"`
	TimeTilDormantAutoDeleteMillis int64                                 `json:"time_til_dormant_autodelete_ms"`
	RequireActiveVersion           bool                                  `json:"require_active_version"`
	MaxPortShareLevel              codersdk.WorkspaceAgentPortShareLevel `json:"max_port_share_level"`
	CORSBehavior                   codersdk.CORSBehavior                 `json:"cors_behavior"`
	UseClassicParameterFlow        bool                                  `json:"use_classic_parameter_flow"`
}

// keepPolicy returns the request that changes nothing. Its fields have the same names as those of a
// template.
func keepPolicy(t codersdk.Template) (request templatePatch, err error) {
	data, err := json.Marshal(t)
	if err == nil {
		err = json.Unmarshal(data, &request)
	}
	return request, err
}

// edit writes the wanted value, unless it is nil, and reports whether it differs.
func edit[T comparable](sent, wanted *T) bool {
	if wanted == nil || *wanted == *sent {
		return false
	}
	*sent = *wanted
	return true
}

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
	Status    string
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
	if ptr.Equal(v.TemplateID, &uuid.Nil) {
		// Coder returns this for a version without a template.
		v.TemplateID = nil
	}
	out := TemplateVersion{
		ID:              v.ID,
		TemplateID:      v.TemplateID,
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
	return fetch(ctx, c, fmt.Sprintf("reading template version %s", id), newTemplateVersion, with(c.sdk.TemplateVersion, id))
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
		TemplateID:      ptr.Deref(v.TemplateID, uuid.Nil),
	}
	for _, variable := range v.Variables {
		request.UserVariableValues = append(request.UserVariableValues, codersdk.VariableValue{Name: variable.Name, Value: variable.Value})
	}
	op := fmt.Sprintf("creating a template version of file %s", v.FileID)
	out, err := fetch(ctx, c, op, newTemplateVersion, func(ctx context.Context) (codersdk.TemplateVersion, error) {
		return c.sdk.CreateTemplateVersion(ctx, org, request)
	})
	for _, variable := range v.Variables {
		// Shorter values occur in texts by chance.
		if len(variable.Value) >= 4 {
			err = withoutSecret(err, variable.Value)
		}
	}
	return out, err
}

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
	return change(ctx, c, fmt.Sprintf("archiving template version %s", id), c.sdk.SetArchiveTemplateVersion, id, true)
}

// CancelVersion requests to cancel the build of a version. Coder refuses this (400) if the build
// has finished.
func (c *Client) CancelVersion(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("cancelling the build of template version %s", id), func(ctx context.Context) error {
		return c.sdk.CancelTemplateVersion(ctx, id)
	})
}
