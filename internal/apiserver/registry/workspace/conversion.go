package workspace

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// fromCoder makes the object of a workspace.
func fromCoder(connection connections.Connection, w coderd.Workspace) *aggregationv1alpha1.CoderWorkspace {
	build := w.LatestBuild
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{
			Name: objectname.Workspace{
				Prefix: connection.NamePrefix, Organization: w.OrganizationName, Owner: w.OwnerName, Name: w.Name,
			}.String(),
			Namespace:         connection.ControlPlane.Namespace,
			UID:               types.UID(w.ID.String()),
			CreationTimestamp: registry.Seconds(w.CreatedAt),
			Generation:        1,
			Labels:            registry.Labels(connection.ControlPlane),
			Finalizers:        []string{aggregationv1alpha1.FinalizerWorkspace},
			ManagedFields:     metadata.ManagedFields(),
		},
		Spec:   specOf(w),
		Status: statusOf(w),
	}
	if isDeleting(build) {
		ws.DeletionTimestamp = ptr.To(registry.Seconds(build.CreatedAt))
		ws.DeletionGracePeriodSeconds = ptr.To[int64](0)
	}
	return ws
}

func specOf(w coderd.Workspace) aggregationv1alpha1.CoderWorkspaceSpec {
	spec := aggregationv1alpha1.CoderWorkspaceSpec{
		Organization:      w.OrganizationName,
		TemplateName:      w.TemplateName,
		TemplateVersionID: w.LatestBuild.TemplateVersionID.String(),
		Running:           ptr.To(w.LatestBuild.Transition == coderd.TransitionStart),
		AutostartSchedule: w.Autostart,
	}
	if w.TTL != nil {
		spec.TTLMillis = ptr.To(w.TTL.Milliseconds())
	}
	return spec
}

func statusOf(w coderd.Workspace) aggregationv1alpha1.CoderWorkspaceStatus {
	build := w.LatestBuild
	status := aggregationv1alpha1.CoderWorkspaceStatus{
		ID:                w.ID.String(),
		Phase:             phaseOf(build),
		OwnerName:         w.OwnerName,
		OrganizationName:  w.OrganizationName,
		TemplateName:      w.TemplateName,
		LatestBuildID:     build.ID.String(),
		LatestBuildStatus: build.Status,
		LatestBuildError:  build.Error,
		Outdated:          w.Outdated,
		Conditions:        conditionsOf(w),
	}
	if build.Status == statusRunning {
		status.Healthy = ptr.To(w.Healthy)
	}
	if build.Deadline != nil {
		status.AutoShutdown = ptr.To(registry.Seconds(*build.Deadline))
	}
	if !w.LastUsedAt.IsZero() {
		status.LastUsedAt = ptr.To(registry.Seconds(w.LastUsedAt.Truncate(time.Minute)))
	}
	return status
}

// The statuses of a workspace that decide something here.
const (
	statusPending   = "pending"
	statusStarting  = "starting"
	statusRunning   = "running"
	statusStopping  = "stopping"
	statusStopped   = "stopped"
	statusFailed    = "failed"
	statusCanceling = "canceling"
	statusCanceled  = "canceled"
	statusDeleting  = "deleting"
	statusDeleted   = "deleted"
)

// isDeleting says that the workspace will be gone, unless the deletion fails.
func isDeleting(build coderd.Build) bool {
	return build.Transition == coderd.TransitionDelete && build.Status != statusFailed && build.Status != statusCanceled
}

// phaseOf is the status with a capital, but that a deletion is called so from
// its first moment.
func phaseOf(build coderd.Build) string {
	switch {
	case build.Status == "":
		return "Unknown"
	case isDeleting(build) && build.Status != statusDeleted:
		return "Deleting"
	default:
		return strings.ToUpper(build.Status[:1]) + build.Status[1:]
	}
}
