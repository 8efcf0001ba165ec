package coderd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

func TestActiveJobsTellsEachIDOnce(t *testing.T) {
	workspace, version, stray, template := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	build := codersdk.ProvisionerJob{
		Type: codersdk.ProvisionerJobTypeWorkspaceBuild, Metadata: codersdk.ProvisionerJobMetadata{WorkspaceID: &workspace, TemplateID: template},
	}
	imports := func(version *uuid.UUID, template uuid.UUID) codersdk.ProvisionerJob {
		return codersdk.ProvisionerJob{
			Type: codersdk.ProvisionerJobTypeTemplateVersionImport, Input: codersdk.ProvisionerJobInput{TemplateVersionID: version},
			Metadata: codersdk.ProvisionerJobMetadata{TemplateID: template},
		}
	}
	gone := codersdk.ProvisionerJob{Type: codersdk.ProvisionerJobTypeWorkspaceBuild}
	dryRun := codersdk.ProvisionerJob{Type: codersdk.ProvisionerJobTypeTemplateVersionDryRun, Metadata: build.Metadata}
	got := newActiveJobs([]codersdk.ProvisionerJob{build, build, gone, dryRun, imports(&version, template), imports(&stray, uuid.Nil), imports(nil, template)})
	want := ActiveJobs{Workspaces: []uuid.UUID{workspace}, TemplateVersions: []uuid.UUID{version, stray}, Templates: []uuid.UUID{template}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("active jobs (-want +got):\n%s", diff)
	}
	if !newActiveJobs(make([]codersdk.ProvisionerJob, maxActiveJobs)).Truncated {
		t.Error("more jobs than one answer has are all of them")
	}
}
