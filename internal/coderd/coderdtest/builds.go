package coderdtest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

type build struct {
	id         uuid.UUID
	number     int32
	version    uuid.UUID
	transition codersdk.WorkspaceTransition
	job        *job
	createdAt  time.Time
	deadline   codersdk.NullTime
}

// checkImported refuses a version of which nothing can be built.
func checkImported(v *version) {
	switch v.job.status {
	case codersdk.ProvisionerJobPending, codersdk.ProvisionerJobRunning:
		message := fmt.Sprintf("The provided template version is %s. Wait for it to complete importing!", v.job.status)
		refuseDetailed(http.StatusNotAcceptable, message, message)
	case codersdk.ProvisionerJobFailed, codersdk.ProvisionerJobCanceled:
		message := fmt.Sprintf("The provided template version %q has failed to import: %q. You cannot build workspaces with it!", v.name, v.job.failure)
		refuseDetailed(http.StatusBadRequest, message, message)
	}
}

func (s *Server) postBuild(r *request) {
	w := s.pathWorkspace(r)
	var body codersdk.CreateWorkspaceBuildRequest
	r.read(&body)
	var v validation
	switch body.Transition {
	case codersdk.WorkspaceTransitionStart, codersdk.WorkspaceTransitionStop, codersdk.WorkspaceTransitionDelete:
	default:
		v.check(false, "transition", "oneof", body.Transition)
	}
	v.refuse()
	if w.deleted && body.Transition != codersdk.WorkspaceTransitionDelete {
		refuseDetailed(http.StatusConflict, fmt.Sprintf("Cannot %s a deleted workspace!", body.Transition),
			"This workspace has been deleted and cannot be modified.")
	}
	versionID := body.TemplateVersionID
	if versionID == uuid.Nil {
		versionID = w.latest().version
	}
	used := s.versionByID(versionID)
	if used == nil {
		refuse(http.StatusBadRequest, "template version does not exist")
	}
	checkImported(used)
	if w.latest().job.status.Active() {
		const message = "A workspace build is already active."
		refuseDetailed(http.StatusConflict, message, message)
	}
	if body.Transition == codersdk.WorkspaceTransitionStart {
		w.dormantAt = nil
	}
	added := s.startBuild(r, w, body.Transition, versionID)
	r.write(http.StatusCreated, s.buildSDK(w, added))
}

func (s *Server) startBuild(r *request, w *workspace, transition codersdk.WorkspaceTransition, versionID uuid.UUID) *build {
	b := s.appendBuild(w, transition, versionID)
	b.job = s.enqueue(r, w.name, job{
		fileID: s.versionByID(versionID).job.fileID,
		orgID:  w.template.OrganizationID,
		succeeded: func() {
			switch {
			case transition == codersdk.WorkspaceTransitionDelete:
				w.deleted = true
			case transition == codersdk.WorkspaceTransitionStart && w.ttl != nil:
				b.deadline = codersdk.NewNullTime(s.now().Add(time.Duration(*w.ttl)*time.Millisecond), true)
			}
		},
	})
	return b
}

func (s *Server) appendBuild(w *workspace, transition codersdk.WorkspaceTransition, versionID uuid.UUID) *build {
	b := &build{id: uuid.New(), number: int32(len(w.builds) + 1), version: versionID, transition: transition, createdAt: s.now()}
	w.builds = append(w.builds, b)
	return b
}

func (s *Server) buildSDK(w *workspace, b *build) codersdk.WorkspaceBuild {
	out := codersdk.WorkspaceBuild{
		ID:                 b.id,
		CreatedAt:          b.createdAt,
		UpdatedAt:          b.job.updatedAt(),
		WorkspaceID:        w.id,
		WorkspaceName:      w.name,
		WorkspaceOwnerID:   w.owner.id,
		WorkspaceOwnerName: w.owner.username,
		TemplateVersionID:  b.version,
		BuildNumber:        b.number,
		Transition:         b.transition,
		InitiatorID:        b.job.initiator,
		Job:                b.job.sdk(),
		Reason:             codersdk.BuildReasonInitiator,
		Resources:          []codersdk.WorkspaceResource{},
		Deadline:           b.deadline,
		Status:             codersdk.ConvertWorkspaceStatus(b.job.status, b.transition),
	}
	if v := s.versionByID(b.version); v != nil {
		out.TemplateVersionName = v.name
	}
	if out.Status == codersdk.WorkspaceStatusRunning && len(w.agents) > 0 {
		resource := codersdk.WorkspaceResource{ID: b.id, JobID: b.job.id, Transition: b.transition, Type: "fake", Name: "main"}
		for _, a := range w.agents {
			resource.Agents = append(resource.Agents, codersdk.WorkspaceAgent{
				Name:           a.Name,
				Status:         codersdk.WorkspaceAgentStatus(a.Status),
				LifecycleState: codersdk.WorkspaceAgentLifecycle(a.LifecycleState),
			})
		}
		out.Resources = append(out.Resources, resource)
	}
	return out
}

func (s *Server) workspaceSDK(w *workspace) codersdk.Workspace {
	latest := s.buildSDK(w, w.latest())
	out := codersdk.Workspace{
		ID:                                   w.id,
		CreatedAt:                            w.createdAt,
		UpdatedAt:                            w.createdAt,
		OwnerID:                              w.owner.id,
		OwnerName:                            w.owner.username,
		OrganizationID:                       w.template.OrganizationID,
		OrganizationName:                     w.template.OrganizationName,
		TemplateID:                           w.template.ID,
		TemplateName:                         w.template.Name,
		TemplateDisplayName:                  w.template.DisplayName,
		TemplateIcon:                         w.template.Icon,
		TemplateActiveVersionID:              w.template.ActiveVersionID,
		LatestBuild:                          latest,
		Outdated:                             latest.TemplateVersionID != w.template.ActiveVersionID,
		Name:                                 w.name,
		AutostartSchedule:                    w.autostart,
		TTLMillis:                            w.ttl,
		LastUsedAt:                           w.lastUsedAt,
		DormantAt:                            w.dormantAt,
		AutomaticUpdates:                     codersdk.AutomaticUpdatesNever,
		Health:                               codersdk.WorkspaceHealth{Healthy: true, FailingAgents: []uuid.UUID{}},
		TemplateAllowUserCancelWorkspaceJobs: w.template.AllowUserCancelWorkspaceJobs,
	}
	for _, a := range w.agents {
		if a.Status == string(codersdk.WorkspaceAgentDisconnected) || a.Status == string(codersdk.WorkspaceAgentTimeout) {
			out.Health.Healthy = false
		}
	}
	return out
}
