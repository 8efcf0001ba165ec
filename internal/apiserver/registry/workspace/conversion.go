package workspace

import (
	"cmp"
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/coderd/connections"
)

// usedEvery is the precision of lastUsedAt while nothing else changes. Each change is a write, and
// ten thousand workspaces may be in use at the same time.
const usedEvery = time.Hour

// Object implements mirror.Kind.
func (k *Kind) Object(
	ctx context.Context, connection connections.Connection, item coderd.Workspace, record *metadata.Record, previous records.Object,
) (records.Object, error) {
	before, _ := previous.(object)
	n, err := intentOf(record)
	if err != nil {
		// The rest of the object is still correct.
		log.FromContext(ctx).Error(err, "Ignoring the record of a workspace that cannot be decoded", "workspace", record.Name)
	}
	if refreshed, err := k.refresh(ctx, connection, item, n); err == nil {
		n = refreshed
	} else {
		log.FromContext(ctx).V(1).Info("Could not read the parameters of a build; serving those of an earlier build", "id", item.ID, "reason", err.Error())
	}
	k.learnCause(ctx, connection, item.LatestBuild, before)
	k.tryUsernames(ctx, connection, item)
	return k.object(connection, item, record, n, before), nil
}

// object converts a workspace of Coder and its record to an API object.
func (k *Kind) object(
	connection connections.Connection, w coderd.Workspace, record *metadata.Record, n intent, previous object,
) object {
	w.LatestBuild.Error = k.errorOf(w.LatestBuild, previous)
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: k.NewMeta(connection,
			metadata.JoinName(connection.NamePrefix, w.OrganizationName, w.OwnerName, w.Name), w.ID, w.CreatedAt),
		Spec: specOf(w, n),
	}
	shared, known := k.sharedWith(connection, w)
	if !known && previous != nil {
		shared = previous.Status.SharedWith
	}
	switch {
	case n.Change != nil && n.Change.SharedWith != nil:
		ws.Spec.SharedWith = n.Change.SharedWith
	case !known && previous != nil:
		ws.Spec.SharedWith = previous.Spec.SharedWith
	case n.SharedWith != nil || previous == nil:
		ws.Spec.SharedWith = inOrder(shared, n.SharedWith)
	default:
		ws.Spec.SharedWith = inOrder(shared, previous.Spec.SharedWith)
	}
	if previous != nil {
		// These fields are immutable. They keep the values from which the object got its name.
		ws.Spec.Organization, ws.Spec.TemplateName = previous.Spec.Organization, previous.Spec.TemplateName
	}
	if isDeleting(w.LatestBuild) {
		// Without a grace period, unless the deletion was also requested here: see registry.Deletes.
		ws.DeletionTimestamp = ptr.To(registry.Seconds(w.LatestBuild.CreatedAt))
	}
	overlay(ws, connection.ControlPlane, record)
	k.Continue(ws, previous)
	ws.Status = statusOf(w)
	ws.Status.SharedWith = shared
	ws.Status.Agents = agentsOf(w, connection)
	if previous != nil && usedLately(previous.Status, ws.Status) {
		ws.Status.LastUsedAt = previous.Status.LastUsedAt
	}
	ws.Status.ObservedGeneration = observedGeneration(ws.Generation, n)
	ws.Status.Conditions = k.conditions(situationOf(ws, record, n, w.LatestBuild.UpdatedAt), previous)
	ws.Status.Healthy = healthOf(ws.Status)
	return ws
}

// usedLately reports whether lastUsedAt is the only news about a build, and less than usedEvery
// from the value shown. If Coder's clock was set back, the new value is earlier.
func usedLately(shown, now aggregationv1alpha1.CoderWorkspaceStatus) bool {
	return shown.LastUsedAt != nil && now.LastUsedAt != nil && shown.LatestBuildID == now.LatestBuildID &&
		shown.LatestBuildStatus == now.LatestBuildStatus && now.LastUsedAt.Sub(shown.LastUsedAt.Time).Abs() < usedEvery
}

// overlay sets the metadata that the server adds to each object, and the metadata of the record.
func overlay(ws object, controlPlane types.NamespacedName, record *metadata.Record) {
	ws.Labels, ws.Annotations, ws.OwnerReferences = registry.Labels(controlPlane), nil, nil
	ws.Finalizers = []string{aggregationv1alpha1.FinalizerWorkspace}
	ws.ManagedFields = metadata.ManagedFields()
	metadata.Overlay(ws, record)
}

// observedGeneration returns the newest generation that was sent to Coder. A change that Coder
// refused counts as sent.
func observedGeneration(generation int64, n intent) int64 {
	if !n.waits() || n.Change == nil {
		return generation
	}
	return min(n.Change.Observed, generation)
}

// specOf returns the state that was last requested in Coder, with the waiting or refused change on
// top.
func specOf(w coderd.Workspace, n intent) aggregationv1alpha1.CoderWorkspaceSpec {
	spec := aggregationv1alpha1.CoderWorkspaceSpec{
		Organization:          w.OrganizationName,
		TemplateName:          w.TemplateName,
		TemplateVersionID:     w.LatestBuild.TemplateVersionID.String(),
		TemplateVersionPreset: n.Preset,
		Parameters:            parametersOf(n),
		Running:               ptr.To(isStarted(w) || n.Restart > 0),
		AutostartSchedule:     ptr.To(ptr.Deref(w.Autostart, "")),
		AutomaticUpdates:      cmp.Or(w.AutomaticUpdates, updatesNever),
		Dormant:               ptr.To(w.Dormant),
		TTLMillis:             ptr.To(ptr.Deref(w.TTL, 0).Milliseconds()),
	}
	if c := n.Change; c != nil {
		if c.Running != nil {
			spec.Running = ptr.To(*c.Running)
		}
		if c.Dormant != nil {
			spec.Dormant = ptr.To(*c.Dormant)
		}
		spec.TemplateVersionID = cmp.Or(c.Version, spec.TemplateVersionID)
	}
	return spec
}

// parametersOf returns the parameters that clients have set through this API.
func parametersOf(n intent) []aggregationv1alpha1.WorkspaceParameter {
	var out []aggregationv1alpha1.WorkspaceParameter
	for _, name := range n.Parameters {
		v, ok := n.Change.valueOf(name)
		if !ok && n.Values != nil {
			v, ok = n.Values.Values[name]
		}
		if ok {
			out = append(out, aggregationv1alpha1.WorkspaceParameter{Name: name, Value: v})
		}
	}
	return out
}

func isStarted(w coderd.Workspace) bool { return w.LatestBuild.Transition == coderd.TransitionStart }

func statusOf(w coderd.Workspace) aggregationv1alpha1.CoderWorkspaceStatus {
	build := w.LatestBuild
	latest := buildOf(build)
	status := aggregationv1alpha1.CoderWorkspaceStatus{
		ID:                w.ID.String(),
		Phase:             phaseOf(build),
		WorkspaceName:     w.Name,
		OwnerName:         w.OwnerName,
		OrganizationName:  w.OrganizationName,
		TemplateName:      w.TemplateName,
		LatestBuildID:     latest.ID,
		LatestBuildStatus: latest.Status,
		LatestBuildError:  build.Error,
		LatestBuild:       latest,
		Outdated:          w.Outdated,
	}
	if build.Deadline != nil {
		status.AutoShutdown = ptr.To(registry.Seconds(*build.Deadline))
	}
	if used := w.LastUsedAt; !used.IsZero() {
		// Coder may report a use before the creation.
		if used.Before(w.CreatedAt) {
			used = w.CreatedAt
		}
		status.LastUsedAt = ptr.To(registry.Seconds(used))
	}
	return status
}

func buildOf(b coderd.Build) *aggregationv1alpha1.WorkspaceBuild {
	return &aggregationv1alpha1.WorkspaceBuild{
		ID:                  b.ID.String(),
		Number:              b.Number,
		Transition:          string(b.Transition),
		Status:              b.Status,
		Reason:              b.Reason,
		Error:               b.Error,
		UnmatchedTags:       b.UnmatchedTags,
		TemplateVersionID:   b.TemplateVersionID.String(),
		TemplateVersionName: b.TemplateVersionName,
		CreatedAt:           ptr.To(registry.Seconds(b.CreatedAt)),
	}
}

// The statuses of a workspace and of its agents that this package uses.
const (
	statusPending  = "pending"
	statusStarting = "starting"
	// agentConnected is the status of an agent with a connection to Coder.
	agentConnected  = "connected"
	agentConnecting = "connecting"
	statusRunning   = "running"
	statusStopping  = "stopping"
	statusStopped   = "stopped"
	statusFailed    = "failed"
	statusCanceling = "canceling"
	statusCanceled  = "canceled"
	statusDeleting  = "deleting"
	statusDeleted   = "deleted"
)

// The values of automaticUpdates.
const (
	updatesAlways = "always"
	updatesNever  = "never"
)

// isActive reports whether the build is not finished. Coder starts no other build meanwhile.
func isActive(b coderd.Build) bool {
	switch b.Status {
	case statusPending, statusStarting, statusStopping, statusDeleting, statusCanceling:
		return true
	}
	return false
}

// hasFailed reports whether the build failed or was canceled.
func hasFailed(b coderd.Build) bool { return b.Status == statusFailed || b.Status == statusCanceled }

// isDeleting reports whether a deletion is running or done.
func isDeleting(b coderd.Build) bool {
	return b.Transition == coderd.TransitionDelete && !hasFailed(b)
}

// phaseOf returns the status with a capital letter. A delete build that has not failed is
// "Deleting" from its start until it is done.
func phaseOf(build coderd.Build) string {
	switch {
	case build.Status == "":
		return "Unknown"
	case isDeleting(build) && build.Status != statusDeleted:
		return "Deleting"
	default:
		_, first := utf8.DecodeRuneInString(build.Status)
		return strings.ToUpper(build.Status[:first]) + build.Status[first:]
	}
}
