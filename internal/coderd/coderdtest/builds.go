package coderdtest

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

type build struct {
	codersdk.WorkspaceBuild
	preset     uuid.UUID
	parameters []codersdk.WorkspaceBuildParameter
	job        *job
	initiator  *user
}

func (s *Server) getBuild(r *request) {
	w, b := s.pathBuild(r)
	r.write(http.StatusOK, s.buildSDK(w, b))
}

func (s *Server) getBuildParameters(r *request) {
	_, b := s.pathBuild(r)
	r.write(http.StatusOK, append([]codersdk.WorkspaceBuildParameter{}, b.parameters...))
}

func (s *Server) getBuildLogs(r *request) {
	_, b := s.pathBuild(r)
	s.getLogs(r, b.job)
}

// cancelBuild lets everybody cancel a build that they expect to be pending, but the database layer
// then refuses it nevertheless if the template does not allow it.
func (s *Server) cancelBuild(r *request) {
	w, b := s.pathBuild(r)
	expected := r.URL.Query().Get("expect_status")
	if expected != "" && expected != "pending" && expected != "running" {
		refuse(http.StatusBadRequest, fmt.Sprintf("Invalid expect_status %q. Only 'running' or 'pending' are allowed.", expected))
	}
	may := w.template.AllowUserCancelWorkspaceJobs || r.user.has("owner")
	if !may && expected != "pending" {
		refuse(http.StatusForbidden, "User is not allowed to cancel workspace builds. Owner role is required.")
	}
	s.checkCancel(b.job)
	if expected != "" && string(b.job.Status) != expected {
		refuse(http.StatusPreconditionFailed, "Job is not in the expected state.")
	}
	if !may {
		refuseDetailed(http.StatusInternalServerError, "Internal error updating provisioner job.", "only owners can cancel workspace builds")
	}
	s.cancel(r, b.job)
}

func (s *Server) getBuildByNumber(r *request) {
	number, err := strconv.Atoi(r.PathValue("number"))
	if err != nil {
		refuse(http.StatusBadRequest, "Failed to parse build number as integer.")
	}
	w := r.visible(s.workspaceNamed(s.pathUser(r), r.PathValue("name")))
	if number < 1 || number > len(w.builds) {
		refuse(http.StatusNotFound, fmt.Sprintf("Workspace %q Build %d does not exist.", w.Name, number))
	}
	r.write(http.StatusOK, s.buildSDK(w, w.builds[number-1]))
}

// pathBuild returns the build in the path and its workspace, which may be deleted.
func (s *Server) pathBuild(r *request) (*workspace, *build) {
	id := r.id("build")
	w := r.visible(s.index.builds[id])
	return w, w.build(id)
}

// checkImported refuses a version that was not imported successfully.
func checkImported(v *version) {
	switch v.job.Status {
	case codersdk.ProvisionerJobPending, codersdk.ProvisionerJobRunning:
		message := fmt.Sprintf("The provided template version is %s. Wait for it to complete importing!", v.job.Status)
		refuseDetailed(http.StatusNotAcceptable, message, message)
	case codersdk.ProvisionerJobFailed, codersdk.ProvisionerJobCanceled:
		message := fmt.Sprintf("The provided template version %q has failed to import: %q. You cannot build workspaces with it!", v.Name, v.job.Error)
		refuseDetailed(http.StatusBadRequest, message, message)
	}
}

// postBuild uses the version of the previous build if the request names none, even if the workspace
// has automatic updates.
func (s *Server) postBuild(r *request) {
	w := s.pathWorkspace(r)
	body := read[codersdk.CreateWorkspaceBuildRequest](r)
	var v validation
	switch body.Transition {
	case codersdk.WorkspaceTransitionStart, codersdk.WorkspaceTransitionStop, codersdk.WorkspaceTransitionDelete:
	default:
		v.check(false, "transition", "oneof", body.Transition)
	}
	v.refuse()
	r.key.mayBuild(w.template, body.Transition)
	if w.owner != r.user && !r.user.has("owner") && !w.grants(r.user, codersdk.RBACAction(body.Transition)) {
		refuse(http.StatusForbidden, "You do not have permission to build this workspace.")
	}
	if w.deleted && body.Transition != codersdk.WorkspaceTransitionDelete {
		refuseDetailed(http.StatusConflict, fmt.Sprintf("Cannot %s a deleted workspace!", body.Transition),
			"This workspace has been deleted and cannot be modified.")
	}
	if body.Orphan {
		checkOrphan(r, body.Transition)
	}
	if w.DormantAt != nil && body.Transition == codersdk.WorkspaceTransitionStart && s.has(startsNoDormant) {
		refuse(http.StatusForbidden, "insert workspace build (authorize context: unauthorized: rbac: forbidden)")
	}
	versionID := body.TemplateVersionID
	if versionID == uuid.Nil {
		versionID = w.latest().TemplateVersionID
	}
	used := s.index.versions[versionID]
	if used == nil {
		refuse(http.StatusBadRequest, "template version does not exist")
	}
	if used.template != w.template.ID {
		refuse(http.StatusBadRequest, "template version doesn't match template")
	}
	checkImported(used)
	if w.latest().job.Status.Active() {
		const message = "A workspace build is already active."
		refuseDetailed(http.StatusConflict, message, message)
	}
	parameters, preset := s.resolve(w.template, used, w.latest(), body.TemplateVersionPresetID, body.RichParameterValues)
	if body.Transition == codersdk.WorkspaceTransitionStart {
		w.DormantAt = nil
	}
	added := s.startBuild(r, w, newBuild(body.Transition, versionID, parameters, preset))
	if body.Orphan && s.matching(added.job) == 0 {
		s.finish(added.job)
	}
	r.write(http.StatusCreated, s.buildSDK(w, added))
}

// checkOrphan refuses a build without Terraform that Coder refuses.
func checkOrphan(r *request, transition codersdk.WorkspaceTransition) {
	if transition != codersdk.WorkspaceTransitionDelete {
		refuse(http.StatusBadRequest, "Orphan is only permitted when deleting a workspace.")
	}
	if !r.user.has("owner") && !r.user.has("template-admin") {
		refuse(http.StatusForbidden, "Only template managers may provide custom state")
	}
}

func (s *Server) startBuild(r *request, w *workspace, wanted *build) *build {
	b := s.appendBuild(w, wanted)
	b.initiator = r.user
	used := s.index.versions[b.TemplateVersionID]
	b.job = s.enqueue(r, w.Name, job{
		ProvisionerJob: codersdk.ProvisionerJob{
			FileID: used.job.FileID, OrganizationID: w.template.OrganizationID, Tags: used.job.Tags,
			Type: codersdk.ProvisionerJobTypeWorkspaceBuild, Input: codersdk.ProvisionerJobInput{WorkspaceBuildID: &b.ID},
		},
		workspace: w,
		versionID: b.TemplateVersionID,
		succeeded: func() {
			switch {
			case b.Transition == codersdk.WorkspaceTransitionDelete:
				s.markDeleted(w)
			case b.Transition == codersdk.WorkspaceTransitionStart && w.TTLMillis != nil:
				b.Deadline = codersdk.NewNullTime(s.now().Add(time.Duration(*w.TTLMillis)*time.Millisecond), true)
			}
		},
	})
	return b
}

// doneBuild adds a build that has already succeeded, as initial state of a test.
func (s *Server) doneBuild(w *workspace, transition codersdk.WorkspaceTransition) {
	wanted := newBuild(transition, w.template.ActiveVersionID, nil, uuid.Nil)
	if len(w.builds) > 0 {
		wanted = newBuild(transition, w.latest().TemplateVersionID, w.latest().parameters, w.latest().preset)
	} else {
		wanted.parameters = defaultsOf(s.index.versions[wanted.TemplateVersionID])
	}
	b := s.appendBuild(w, wanted)
	b.initiator = w.owner
	b.job = s.done(s.index.versions[b.TemplateVersionID].job.FileID, w.template.OrganizationID, w.owner.ID)
	if transition == codersdk.WorkspaceTransitionDelete {
		s.markDeleted(w)
	}
}

func newBuild(transition codersdk.WorkspaceTransition, version uuid.UUID, parameters buildParameters, preset uuid.UUID) *build {
	return &build{
		WorkspaceBuild: codersdk.WorkspaceBuild{Transition: transition, TemplateVersionID: version}, parameters: parameters, preset: preset,
	}
}

func (s *Server) appendBuild(w *workspace, b *build) *build {
	b.ID, b.BuildNumber, b.CreatedAt = uuid.New(), int32(len(w.builds)+1), s.now()
	w.builds = append(w.builds, b)
	s.index.builds[b.ID] = w
	s.index.order = nil
	return b
}

func (s *Server) buildSDK(w *workspace, b *build) codersdk.WorkspaceBuild {
	out := b.WorkspaceBuild
	out.WorkspaceID, out.WorkspaceName, out.WorkspaceOwnerID, out.WorkspaceOwnerName = w.ID, w.Name, w.owner.ID, w.owner.Username
	out.UpdatedAt, out.Job, out.InitiatorID = b.job.updatedAt(), b.job.ProvisionerJob, b.job.InitiatorID
	out.Reason, out.Resources = codersdk.BuildReasonInitiator, []codersdk.WorkspaceResource{}
	out.Status = codersdk.ConvertWorkspaceStatus(b.job.Status, b.Transition)
	out.MatchedProvisioners = &codersdk.MatchedProvisioners{}
	if b.job.Status == codersdk.ProvisionerJobPending {
		out.MatchedProvisioners = s.matchedSDK(b.job)
	}
	if b.initiator != nil {
		out.InitiatorUsername = b.initiator.Username
	}
	if b.preset != uuid.Nil {
		out.TemplateVersionPresetID = &b.preset
	}
	if v := s.index.versions[b.TemplateVersionID]; v != nil {
		out.TemplateVersionName = v.Name
	}
	if out.Status == codersdk.WorkspaceStatusRunning && len(w.agents) > 0 {
		resource := codersdk.WorkspaceResource{ID: b.ID, JobID: b.job.ID, Transition: b.Transition, Type: "fake", Name: "main"}
		for _, a := range w.agents {
			resource.Agents = append(resource.Agents, s.agentSDK(b.ID, a))
		}
		out.Resources = append(out.Resources, resource)
	}
	return out
}
