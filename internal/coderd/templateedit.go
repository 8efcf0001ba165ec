package coderd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

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
func (c *Client) UpdateTemplate(ctx context.Context, id uuid.UUID, edit TemplateEdit) (Template, error) {
	var out Template
	err := c.call(ctx, fmt.Sprintf("updating template %s", id), func(ctx context.Context) error {
		current, err := c.sdk.Template(ctx, id)
		if err != nil {
			return err
		}
		out = newTemplate(current)
		request, err := keepPolicy(current)
		if err != nil || !edit.apply(&request) {
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

// apply writes the edit into the request and reports whether it changes anything.
func (e TemplateEdit) apply(request *templatePatch) bool {
	changed := []bool{
		edit(&request.DisplayName, e.DisplayName),
		edit(&request.Description, e.Description),
		edit(&request.Icon, e.Icon),
		edit(&request.DefaultTTLMillis, millis(e.DefaultTTL)),
		edit(&request.ActivityBumpMillis, millis(e.ActivityBump)),
		edit(&request.AllowUserCancelWorkspaceJobs, e.AllowUserCancelWorkspaceJobs),
		edit(&request.UseClassicParameterFlow, e.UseClassicParameterFlow),
		edit(&request.CORSBehavior, (*codersdk.CORSBehavior)(e.CORSBehavior)),
	}
	return slices.Contains(changed, true)
}

// edit writes the wanted value, unless it is nil, and reports whether it differs.
func edit[T comparable](sent, wanted *T) bool {
	if wanted == nil || *wanted == *sent {
		return false
	}
	*sent = *wanted
	return true
}
