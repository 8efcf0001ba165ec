package coderd

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// BuildRequest is a request to build a workspace. Only Transition is required.
type BuildRequest struct {
	Transition Transition
	// TemplateVersionID is the version to build from. uuid.Nil means the version of the previous
	// build, even if the workspace has automatic updates: Coder applies those only when it starts a
	// workspace by its schedule.
	TemplateVersionID uuid.UUID
	// Parameters replace values of the workspace. Parameters that are not listed keep their values.
	Parameters []Parameter
	// PresetID sets the parameters of the preset. Its values take precedence over Parameters.
	PresetID uuid.UUID
	// Orphan deletes a workspace without deleting its resources, for the case that they cannot be
	// deleted any more. It may be set only with TransitionDelete.
	Orphan bool
	// Wake wakes a dormant workspace before it is started. Since 2.30 a start does that by itself;
	// 2.29.1 refuses the start with 403 (tested).
	Wake bool
}

// Build starts, stops or deletes a workspace. It returns when the build is queued. The error is
// IsConflict if another build is active.
func (c *Client) Build(ctx context.Context, workspaceID uuid.UUID, request BuildRequest) (Build, error) {
	body := codersdk.CreateWorkspaceBuildRequest{
		Transition:              codersdk.WorkspaceTransition(request.Transition),
		TemplateVersionID:       request.TemplateVersionID,
		RichParameterValues:     sdkParameters(request.Parameters),
		TemplateVersionPresetID: request.PresetID,
		Orphan:                  request.Orphan,
	}
	if request.Wake {
		if err := c.SetDormant(ctx, workspaceID, false); err != nil {
			return Build{}, err
		}
	}
	var b buildJSON
	err := c.call(ctx, fmt.Sprintf("building (%s) workspace %s", request.Transition, workspaceID), func(ctx context.Context) error {
		return c.request(ctx, http.MethodPost, fmt.Sprintf("/api/v2/workspaces/%s/builds", workspaceID), body, http.StatusCreated, into(&b))
	})
	return b.build(), err
}

// WorkspaceBuild reads one build.
func (c *Client) WorkspaceBuild(ctx context.Context, build uuid.UUID) (Build, error) {
	var b buildJSON
	err := c.call(ctx, fmt.Sprintf("reading workspace build %s", build), func(ctx context.Context) error {
		return c.request(ctx, http.MethodGet, fmt.Sprintf("/api/v2/workspacebuilds/%s", build), nil, http.StatusOK, into(&b))
	})
	return b.build(), err
}

// WorkspaceBuildByNumber reads a build of a workspace by its number, which starts at 1. Coder looks
// it up by the names of owner and workspace. A build of another workspace that now has this name
// results in IsNotFound.
func (c *Client) WorkspaceBuildByNumber(ctx context.Context, w Workspace, number int32) (Build, error) {
	op := fmt.Sprintf("reading build %d of workspace %q of %q", number, w.Name, w.OwnerName)
	if err := checkNames(op, w.OwnerName, w.Name); err != nil {
		return Build{}, err
	}
	var b buildJSON
	err := c.call(ctx, op, func(ctx context.Context) error {
		path := fmt.Sprintf("/api/v2/users/%s/workspace/%s/builds/%d", w.OwnerName, w.Name, number)
		return c.request(ctx, http.MethodGet, path, nil, http.StatusOK, into(&b))
	})
	if err == nil && b.WorkspaceID != w.ID {
		err = &Error{Op: op, StatusCode: http.StatusNotFound, Message: "another workspace has this name now"}
	}
	return b.build(), err
}

// CancelBuild requests to cancel a build. Coder refuses this (400) if the build has finished.
func (c *Client) CancelBuild(ctx context.Context, build uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("cancelling workspace build %s", build), func(ctx context.Context) error {
		return c.sdk.CancelWorkspaceBuild(ctx, build, codersdk.CancelWorkspaceBuildParams{})
	})
}
