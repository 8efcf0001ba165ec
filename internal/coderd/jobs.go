package coderd

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
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
	var out []Job
	err := c.call(ctx, fmt.Sprintf("listing the %s jobs of organization %s", which, organization), func(ctx context.Context) error {
		jobs, err := c.sdk.OrganizationProvisionerJobs(ctx, organization, &options)
		out = make([]Job, 0, len(jobs))
		for i := range jobs {
			out = append(out, newJob(&jobs[i]))
		}
		return err
	})
	return out, err
}

func newJob(job *codersdk.ProvisionerJob) Job {
	out := Job{ID: job.ID, Status: string(job.Status), Active: job.Status.Active()}
	switch job.Type {
	case codersdk.ProvisionerJobTypeWorkspaceBuild:
		if job.Metadata.WorkspaceID != nil {
			out.Workspace = *job.Metadata.WorkspaceID
		}
	case codersdk.ProvisionerJobTypeTemplateVersionImport:
		if job.Input.TemplateVersionID != nil {
			out.TemplateVersion = *job.Input.TemplateVersionID
		}
		out.Template = job.Metadata.TemplateID
	}
	return out
}
