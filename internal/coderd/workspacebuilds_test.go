package coderd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

func TestJobs(t *testing.T) {
	id, workspace, version, template := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	metadata := codersdk.ProvisionerJobMetadata{WorkspaceID: &workspace, TemplateID: template}
	input := codersdk.ProvisionerJobInput{TemplateVersionID: &version}
	for name, test := range map[string]struct {
		job  codersdk.ProvisionerJob
		want Job
	}{
		"build": {
			codersdk.ProvisionerJob{ID: id, Type: codersdk.ProvisionerJobTypeWorkspaceBuild, Status: codersdk.ProvisionerJobRunning, Metadata: metadata},
			Job{ID: id, Status: "running", Active: true, Workspace: workspace},
		},
		"build of a workspace that is gone": {
			codersdk.ProvisionerJob{ID: id, Type: codersdk.ProvisionerJobTypeWorkspaceBuild, Status: codersdk.ProvisionerJobSucceeded},
			Job{ID: id, Status: "succeeded"},
		},
		"import": {
			codersdk.ProvisionerJob{
				ID: id, Type: codersdk.ProvisionerJobTypeTemplateVersionImport, Status: codersdk.ProvisionerJobPending, Input: input,
				Metadata: codersdk.ProvisionerJobMetadata{TemplateID: template},
			},
			Job{ID: id, Status: "pending", Active: true, TemplateVersion: version, Template: template},
		},
		"import without a template": {
			codersdk.ProvisionerJob{ID: id, Type: codersdk.ProvisionerJobTypeTemplateVersionImport, Status: codersdk.ProvisionerJobCanceling, Input: input},
			Job{ID: id, Status: "canceling", Active: true, TemplateVersion: version},
		},
		"dry run": {
			codersdk.ProvisionerJob{ID: id, Type: codersdk.ProvisionerJobTypeTemplateVersionDryRun, Status: codersdk.ProvisionerJobFailed, Metadata: metadata},
			Job{ID: id, Status: "failed"},
		},
	} {
		if diff := cmp.Diff(test.want, newJob(test.job)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
