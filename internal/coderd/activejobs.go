package coderd

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// maxActiveJobs bounds one answer. Coder's own limit is 50 where none is given.
const maxActiveJobs = 1000

// ActiveJobs says what Coder is building. Each id is told once.
type ActiveJobs struct {
	// Workspaces have a build that is not done.
	Workspaces []uuid.UUID
	// TemplateVersions are being built. Templates are those that they belong to,
	// without the versions that belong to none yet.
	TemplateVersions, Templates []uuid.UUID
	// Truncated says that there are more, of which nothing is said here.
	Truncated bool
}

// ActiveJobs asks what is being built in an organization: jobs that wait, run or
// are being cancelled. It costs Coder an index and no more, so it may be asked
// often. A token that must not read the jobs gets "not found".
func (c *Client) ActiveJobs(ctx context.Context, organization uuid.UUID) (ActiveJobs, error) {
	var out ActiveJobs
	err := c.call(ctx, fmt.Sprintf("listing the active jobs of organization %s", organization), func(ctx context.Context) error {
		jobs, err := c.sdk.OrganizationProvisionerJobs(ctx, organization, &codersdk.OrganizationProvisionerJobsOptions{
			Limit:  maxActiveJobs,
			Status: []codersdk.ProvisionerJobStatus{codersdk.ProvisionerJobPending, codersdk.ProvisionerJobRunning, codersdk.ProvisionerJobCanceling},
		})
		out = newActiveJobs(jobs)
		return err
	})
	return out, err
}

func newActiveJobs(jobs []codersdk.ProvisionerJob) ActiveJobs {
	out := ActiveJobs{Truncated: len(jobs) >= maxActiveJobs}
	seen := map[uuid.UUID]bool{}
	add := func(to *[]uuid.UUID, id uuid.UUID) {
		if id != uuid.Nil && !seen[id] {
			seen[id] = true
			*to = append(*to, id)
		}
	}
	for _, job := range jobs {
		switch job.Type {
		case codersdk.ProvisionerJobTypeWorkspaceBuild:
			if job.Metadata.WorkspaceID != nil {
				add(&out.Workspaces, *job.Metadata.WorkspaceID)
			}
		case codersdk.ProvisionerJobTypeTemplateVersionImport:
			if job.Input.TemplateVersionID != nil {
				add(&out.TemplateVersions, *job.Input.TemplateVersionID)
			}
			add(&out.Templates, job.Metadata.TemplateID)
		}
	}
	return out
}
