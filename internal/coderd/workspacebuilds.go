package coderd

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// BuildRequest is a build of a workspace. Only the transition must be given.
type BuildRequest struct {
	Transition Transition
	// TemplateVersionID is the version to build from. uuid.Nil stands for the one of
	// the build before, whatever the workspace's automatic updates say: those count
	// only where Coder starts it by its schedule.
	TemplateVersionID uuid.UUID
	// Parameters replace the values that the workspace has. Those that are not named
	// stay as they are.
	Parameters []Parameter
	// PresetID gives values to the parameters of the preset, whatever Parameters
	// says of them.
	PresetID uuid.UUID
	// Orphan deletes a workspace without deleting what it is made of, where nothing
	// can delete that any more. It is for TransitionDelete alone.
	Orphan bool
	// Wake wakes a dormant workspace before it is started. From 2.30 a start does that
	// itself; 2.29.1 refuses it with 403 (tried).
	Wake bool
}

// Build starts, stops or deletes a workspace. It returns when the build is
// queued. A build that is active already is a conflict.
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

// WorkspaceBuildByNumber reads the build of a workspace that has a number, which
// counts from 1. Coder finds it by the names of owner and workspace only; a build of
// another workspace that has the name meanwhile is not found.
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

// CancelBuild asks a build to end before it is done. One that is done already is
// refused (400).
func (c *Client) CancelBuild(ctx context.Context, build uuid.UUID) error {
	return c.call(ctx, fmt.Sprintf("cancelling workspace build %s", build), func(ctx context.Context) error {
		return c.sdk.CancelWorkspaceBuild(ctx, build, codersdk.CancelWorkspaceBuildParams{})
	})
}
