package coderdtest

import (
	"net/http"
	"time"

	"k8s.io/utils/ptr"

	"github.com/coder/coder/v2/coderd/schedule/cron"
	"github.com/coder/coder/v2/codersdk"
)

func validUpdates(updates codersdk.AutomaticUpdates) bool {
	return updates == codersdk.AutomaticUpdatesAlways || updates == codersdk.AutomaticUpdatesNever
}

func (s *Server) putAutomaticUpdates(r *request) {
	w := s.pathWorkspace(r)
	body := read[codersdk.UpdateWorkspaceAutomaticUpdatesRequest](r)
	if !validUpdates(body.AutomaticUpdates) {
		refuse(http.StatusBadRequest, "Invalid request", codersdk.ValidationError{Field: "automatic_updates", Detail: "must be always or never"})
	}
	w.AutomaticUpdates = body.AutomaticUpdates
	r.w.WriteHeader(http.StatusNoContent)
}

// refusePrebuilt refuses to change a workspace that Coder has built in advance, as coderd/workspaces.go does.
func (w *workspace) refusePrebuilt(message string) {
	if w.owner.Username == prebuilds {
		refuse(http.StatusConflict, message)
	}
}

// putDormant changes only the dormancy: it neither stops nor starts the workspace.
func (s *Server) putDormant(r *request) {
	w := s.pathWorkspace(r)
	body := read[codersdk.UpdateWorkspaceDormancy](r)
	w.refusePrebuilt("Dormancy updates are not supported for prebuilt workspaces")
	if body.Dormant == (w.DormantAt != nil) {
		r.w.WriteHeader(http.StatusNotModified)
		return
	}
	s.setDormant(w, body.Dormant)
	r.write(http.StatusOK, s.workspaceSDK(w))
}

func (s *Server) setDormant(w *workspace, dormant bool) {
	w.DormantAt = nil
	if dormant {
		w.DormantAt = ptr.To(s.now())
	}
}

func (s *Server) putTTL(r *request) {
	w := s.pathWorkspace(r)
	body := read[codersdk.UpdateWorkspaceTTLRequest](r)
	w.refusePrebuilt("TTL updates are not supported for prebuilt workspaces")
	ttl, problem := wholeMinutes(body.TTLMillis, 0)
	if !w.template.AllowUserAutostop {
		problem = "Custom autostop TTL is not allowed for workspaces using this template."
	}
	if problem != "" {
		refuse(http.StatusBadRequest, "Error updating workspace time until shutdown.", codersdk.ValidationError{Field: "ttl_ms", Detail: problem})
	}
	w.TTLMillis = ttl
	if ttl == nil {
		w.latest().Deadline = codersdk.NullTime{}
	}
	r.w.WriteHeader(http.StatusNoContent)
}

func (s *Server) putAutostart(r *request) {
	w := s.pathWorkspace(r)
	body := read[codersdk.UpdateWorkspaceAutostartRequest](r)
	w.refusePrebuilt("Autostart is not supported for prebuilt workspaces")
	if problem := scheduleProblem(body.Schedule); problem != "" {
		refuse(http.StatusBadRequest, "Invalid autostart schedule.", codersdk.ValidationError{Field: "schedule", Detail: problem})
	}
	if !w.template.AllowUserAutostart {
		const detail = "Autostart is not allowed for workspaces using this template."
		refuse(http.StatusBadRequest, detail, codersdk.ValidationError{Field: "schedule", Detail: detail})
	}
	w.AutostartSchedule = nil
	if body.Schedule != nil && *body.Schedule != "" {
		w.AutostartSchedule = body.Schedule
	}
	r.w.WriteHeader(http.StatusNoContent)
}

// wholeMinutes returns the TTL as Coder stores it, truncated to minutes.
func wholeMinutes(millis *int64, fallback int64) (ttl *int64, problem string) {
	if millis == nil || *millis == 0 {
		if fallback == 0 {
			return nil, ""
		}
		return &fallback, ""
	}
	whole := (time.Duration(*millis) * time.Millisecond).Truncate(time.Minute)
	switch {
	case whole < time.Minute:
		return nil, "time until shutdown must be at least one minute"
	case whole > 30*24*time.Hour:
		return nil, "time until shutdown must be less than 30 days"
	}
	return ptr.To(whole.Milliseconds()), ""
}

// scheduleProblem returns why Coder does not accept an autostart schedule, or "".
func scheduleProblem(schedule *string) string {
	if schedule == nil || *schedule == "" {
		return ""
	}
	if _, err := cron.Weekly(*schedule); err != nil {
		return err.Error()
	}
	return ""
}
