package coderd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/coder/coder/v2/codersdk"
	"github.com/google/uuid"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
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
	// deleted any more. It may be set only with TransitionDelete. Coder requires the permission to
	// update the template. If there is no provisioner for the build, Coder completes it at once.
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
	b, err := post[buildJSON](ctx, c, fmt.Sprintf("building (%s) workspace %s", request.Transition, workspaceID),
		fmt.Sprintf("/api/v2/workspaces/%s/builds", workspaceID), body, http.StatusCreated)
	return b.build(), err
}

// CancelPending cancels a build that no provisioner has taken yet, so it has changed nothing. It
// does nothing if the build is no longer pending.
func (c *Client) CancelPending(ctx context.Context, build uuid.UUID) error {
	err := c.call(ctx, fmt.Sprintf("canceling build %s", build), func(ctx context.Context) error {
		return c.request(ctx, http.MethodPatch, fmt.Sprintf("/api/v2/workspacebuilds/%s/cancel", build), nil, http.StatusOK, ignore,
			withQuery(map[string]string{"expect_status": "pending"}))
	})
	if hasStatus(err, http.StatusPreconditionFailed, http.StatusBadRequest) {
		return nil
	}
	return err
}

// PrebuildsUser is the account with which Coder builds workspaces in advance for presets. A user who creates a workspace from such a
// preset gets one of them, with another build.
var PrebuildsUser = uuid.MustParse("c42fdf75-3097-471c-8c33-fb52454d81c0")

// WorkspaceBuildByNumber reads a build of a workspace by its number, which starts at 1. Coder looks
// it up by the names of owner and workspace. A build of another workspace that now has this name
// results in IsNotFound.
func (c *Client) WorkspaceBuildByNumber(ctx context.Context, w Workspace, number int32) (Build, error) {
	op := fmt.Sprintf("reading build %d of workspace %q of %q", number, w.Name, w.OwnerName)
	b, err := get[buildJSON](ctx, c, op, fmt.Sprintf("/api/v2/users/%s/workspace/%s/builds/%d", w.OwnerName, w.Name, number), nil,
		w.OwnerName, w.Name)
	if err == nil && b.WorkspaceID != w.ID {
		err = &Error{Op: op, StatusCode: http.StatusNotFound, Message: "another workspace now has this name"}
	}
	return b.build(), err
}

// Transition is the effect of a build on a workspace.
type Transition string

// The transitions of a workspace.
const (
	TransitionStart  Transition = "start"
	TransitionStop   Transition = "stop"
	TransitionDelete Transition = "delete"
)

// MaxJobs is the most jobs that one request returns.
const MaxJobs = 1000

// Job is a provisioner job: the build of a workspace or of a template version.
type Job struct {
	ID uuid.UUID
	// Status is the one that Coder reports. Active is true until the job has ended.
	Status string
	Active bool
	// Workspace is the workspace that is built. TemplateVersion is the version that is
	// built, Template the template that this version belongs to. Each is uuid.Nil if it
	// does not apply.
	Workspace, TemplateVersion, Template uuid.UUID
}

// ActiveJobs returns the jobs of an organization that wait, run or are being canceled, at
// most MaxJobs. Coder finds them with an index, so this may be called often. If the token
// may not read the jobs, the error is "not found".
func (c *Client) ActiveJobs(ctx context.Context, organization uuid.UUID) ([]Job, error) {
	return c.jobs(ctx, "active", organization, codersdk.OrganizationProvisionerJobsOptions{
		Limit:  MaxJobs,
		Status: []codersdk.ProvisionerJobStatus{codersdk.ProvisionerJobPending, codersdk.ProvisionerJobRunning, codersdk.ProvisionerJobCanceling},
	})
}

// NewestJobs returns the newest jobs of an organization, whatever their status, the newest
// first. Coder's database reads all jobs of the organization for this, so it takes
// longer the more builds there ever were.
func (c *Client) NewestJobs(ctx context.Context, organization uuid.UUID, limit int) ([]Job, error) {
	return c.jobs(ctx, "newest", organization, codersdk.OrganizationProvisionerJobsOptions{Limit: limit})
}

func (c *Client) jobs(ctx context.Context, which string, organization uuid.UUID, options codersdk.OrganizationProvisionerJobsOptions) ([]Job, error) {
	op := fmt.Sprintf("listing the %s jobs of organization %s", which, organization)
	return fetchList(ctx, c, op, newJob, func(ctx context.Context) ([]codersdk.ProvisionerJob, error) {
		return c.sdk.OrganizationProvisionerJobs(ctx, organization, &options)
	})
}

func newJob(job codersdk.ProvisionerJob) Job {
	out := Job{ID: job.ID, Status: string(job.Status), Active: job.Status.Active()}
	switch job.Type {
	case codersdk.ProvisionerJobTypeWorkspaceBuild:
		out.Workspace = ptr.Deref(job.Metadata.WorkspaceID, uuid.Nil)
	case codersdk.ProvisionerJobTypeTemplateVersionImport:
		out.TemplateVersion, out.Template = ptr.Deref(job.Input.TemplateVersionID, uuid.Nil), job.Metadata.TemplateID
	}
	return out
}

// causeTimeout limits how long the log of a failed build is read.
const causeTimeout = 5 * time.Second

// BuildCause returns Terraform's error from the log of a workspace build, as one line. It returns
// an empty string if the log contains none.
func (c *Client) BuildCause(ctx context.Context, build uuid.UUID) (string, error) {
	return causeIn(ctx, func(ctx context.Context) (*LogStream, error) { return c.BuildLogs(ctx, build, 0, false) })
}

// VersionCause is like BuildCause, for the build of a template version.
func (c *Client) VersionCause(ctx context.Context, version uuid.UUID) (string, error) {
	return causeIn(ctx, func(ctx context.Context) (*LogStream, error) { return c.VersionLogs(ctx, version, 0, false) })
}

func causeIn(ctx context.Context, open func(context.Context) (*LogStream, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, causeTimeout)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	cause := redaction.TerraformCause(func(yield func(stage, line string) bool) {
		for {
			var line LogLine
			if line, err = stream.Next(ctx); err != nil || !yield(line.Stage, line.Output) {
				return
			}
		}
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return cause, err
}
