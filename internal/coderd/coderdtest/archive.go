package coderdtest

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/coder/coder/v2/codersdk"
)

// archiveVersion archives an unused version, or unarchives it.
func (s *Server) archiveVersion(archive bool) handlerFunc {
	verb := "archived"
	if !archive {
		verb = "unarchived"
	}
	return func(r *request) {
		v := s.pathVersion(r)
		r.needsRole("owner", "template-admin")
		switch {
		case v.archived == archive:
			refuse(http.StatusBadRequest, "Template version already "+verb)
		case v.template == uuid.Nil:
			refuse(http.StatusBadRequest, "Cannot archive template versions not associate with a template.")
		case archive && s.inUse(v):
			refuseDetailed(http.StatusInternalServerError, "Internal error fetching template version.",
				"Unable to archive specified version, the version is likely in use by a workspace or currently set to the active version")
		}
		v.archived, v.updatedAt = archive, s.now()
		r.write(http.StatusOK, fmt.Sprintf("template version %q %s", v.id, verb))
	}
}

// inUse reports whether a version is the active one, is being built, or is used by the latest build
// of a workspace.
func (s *Server) inUse(v *version) bool {
	if t := s.templateByID(v.template); t == nil || t.ActiveVersionID == v.id {
		return true
	}
	if v.job.status == codersdk.ProvisionerJobPending || v.job.status == codersdk.ProvisionerJobRunning {
		return true
	}
	for _, w := range s.index.workspaces {
		if b := w.latest(); b.version == v.id && b.transition != codersdk.WorkspaceTransitionDelete {
			return true
		}
	}
	return false
}

func (s *Server) versionNamed(template uuid.UUID, name string) *version {
	for _, v := range s.versions {
		if v.template == template && v.name == name {
			return v
		}
	}
	return nil
}

// versionSDK converts a version, with the fields that Coder returns only for a single version.
func (s *Server) versionSDK(v *version) codersdk.TemplateVersion {
	out := v.sdk()
	if v.job.status == codersdk.ProvisionerJobPending {
		out.MatchedProvisioners = s.matchedSDK(v.job)
	}
	return out
}
