package coderd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// TemplateEdit is a change of what people see of a template, and of its policy.
// Nil keeps it.
type TemplateEdit struct {
	DisplayName, Description, Icon *string
	// The rest is as in TemplatePolicy.
	DefaultTTL, ActivityBump                              *time.Duration
	AllowUserCancelWorkspaceJobs, UseClassicParameterFlow *bool
	CORSBehavior                                          *string
}

// UpdateTemplate changes what the edit names and nothing else.
//
// Coder's call replaces the whole policy of a template: a field that is not
// sent is reset. So the template is read, and everything is sent back as it
// was. A policy that somebody changes between the two is set back; Coder offers
// no way to prevent that.
func (c *Client) UpdateTemplate(ctx context.Context, id uuid.UUID, edit TemplateEdit) (Template, error) {
	var out Template
	err := c.call(ctx, fmt.Sprintf("updating template %s", id), func(ctx context.Context) error {
		current, err := c.sdk.Template(ctx, id)
		if err != nil {
			return err
		}
		out = newTemplate(current)
		request := keepPolicy(current)
		if !edit.apply(&request) {
			return nil
		}
		updated, err := c.sdk.UpdateTemplateMeta(ctx, id, request)
		if err == nil {
			out = newTemplate(updated)
		}
		if seen, ok := ctx.Value(answerKey{}).(*answer); ok && seen.status == http.StatusNotModified {
			// Somebody else made the same change first.
			return nil
		}
		return err
	})
	if err != nil {
		return Template{}, err
	}
	return out, nil
}

// keepPolicy is the request that leaves a template as it is.
func keepPolicy(t codersdk.Template) codersdk.UpdateTemplateMeta {
	return codersdk.UpdateTemplateMeta{
		Name:                           t.Name,
		DisplayName:                    &t.DisplayName,
		Description:                    &t.Description,
		Icon:                           &t.Icon,
		DefaultTTLMillis:               t.DefaultTTLMillis,
		ActivityBumpMillis:             t.ActivityBumpMillis,
		AutostopRequirement:            &t.AutostopRequirement,
		AutostartRequirement:           &t.AutostartRequirement,
		AllowUserAutostart:             t.AllowUserAutostart,
		AllowUserAutostop:              t.AllowUserAutostop,
		AllowUserCancelWorkspaceJobs:   t.AllowUserCancelWorkspaceJobs,
		FailureTTLMillis:               t.FailureTTLMillis,
		TimeTilDormantMillis:           t.TimeTilDormantMillis,
		TimeTilDormantAutoDeleteMillis: t.TimeTilDormantAutoDeleteMillis,
		RequireActiveVersion:           t.RequireActiveVersion,
		MaxPortShareLevel:              &t.MaxPortShareLevel,
		CORSBehavior:                   &t.CORSBehavior,
		UseClassicParameterFlow:        &t.UseClassicParameterFlow,
		// Unset keeps the message. Sent as it was, it would be the same.
		DeprecationMessage: nil,
		// These three are commands, not state.
		UpdateWorkspaceLastUsedAt:  false,
		UpdateWorkspaceDormantAt:   false,
		DisableEveryoneGroupAccess: false,
	}
}

// apply writes the edit into the request and says whether it changes anything.
func (e TemplateEdit) apply(request *codersdk.UpdateTemplateMeta) bool {
	changed := []bool{
		edit(request.DisplayName, e.DisplayName),
		edit(request.Description, e.Description),
		edit(request.Icon, e.Icon),
		edit(&request.DefaultTTLMillis, millis(e.DefaultTTL)),
		edit(&request.ActivityBumpMillis, millis(e.ActivityBump)),
		edit(&request.AllowUserCancelWorkspaceJobs, e.AllowUserCancelWorkspaceJobs),
		edit(request.UseClassicParameterFlow, e.UseClassicParameterFlow),
		edit(request.CORSBehavior, (*codersdk.CORSBehavior)(e.CORSBehavior)),
	}
	return slices.Contains(changed, true)
}

// edit writes what is wanted, unless that is nil, and says whether it is new.
func edit[T comparable](sent, wanted *T) bool {
	if wanted == nil || *wanted == *sent {
		return false
	}
	*sent = *wanted
	return true
}
