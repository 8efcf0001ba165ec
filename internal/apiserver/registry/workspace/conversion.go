package workspace

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	n, err := registry.ReadIntent[intent](record)
	if err != nil {
		// The rest of the object is still correct.
		log.FromContext(ctx).Error(err, "Ignoring the record of a workspace that cannot be decoded", "workspace", record.Name)
	}
	if refreshed, err := k.refresh(ctx, connection, item, n); err == nil {
		n = refreshed
	} else {
		log.FromContext(ctx).V(1).Info("Could not read the parameters of a build; serving those of an earlier build", "id", item.ID, "reason", err.Error())
	}
	if b := item.LatestBuild; b.Status == statusFailed && shownError(b, before) == b.Error {
		k.causes.Learn(ctx, b.ID, b.Error, b.UpdatedAt, connection.Client.BuildCause)
	}
	k.tryUsernames(ctx, connection, item)
	return k.object(connection, item, record, n, before), nil
}

// object converts a workspace of Coder and its record to an API object.
func (k *Kind) object(
	connection connections.Connection, w coderd.Workspace, record *metadata.Record, n intent, previous object,
) object {
	w.LatestBuild.Error = shownError(w.LatestBuild, previous)
	if cause := k.causes.Get(w.LatestBuild.ID); cause != "" && w.LatestBuild.Status == statusFailed {
		w.LatestBuild.Error = cause
	}
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: k.NewMeta(connection,
			metadata.JoinName(connection.NamePrefix, w.OrganizationName, w.OwnerName, w.Name), w.ID, w.CreatedAt),
		Spec:   specOf(w, n),
		Status: statusOf(w),
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
		// lastUsedAt changes with other news about the build, or after usedEvery. If Coder's clock was set back, the new value is
		// earlier.
		shown, now := previous.Status, ws.Status
		if shown.LastUsedAt != nil && now.LastUsedAt != nil && shown.LatestBuildID == now.LatestBuildID &&
			shown.LatestBuildStatus == now.LatestBuildStatus && now.LastUsedAt.Sub(shown.LastUsedAt.Time).Abs() < usedEvery {
			ws.Status.LastUsedAt = shown.LastUsedAt
		}
	}
	if isDeleting(w.LatestBuild) {
		// Without a grace period, unless the deletion was also requested here: see registry.Deletes.
		ws.DeletionTimestamp = ptr.To(registry.Seconds(w.LatestBuild.CreatedAt))
	}
	overlay(ws, connection.ControlPlane, record)
	k.Continue(ws, previous)
	ws.Status.SharedWith = shared
	ws.Status.Agents = agentsOf(w, connection)
	ws.Status.ObservedGeneration = observedGeneration(ws.Generation, n)
	ws.Status.Conditions = k.conditions(ws, record, n, w.LatestBuild.UpdatedAt, previous)
	ws.Status.Healthy = healthOf(ws.Status)
	return ws
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
		Running:               ptr.To(isStarted(w) || n.Restart > 0),
		AutostartSchedule:     ptr.To(ptr.Deref(w.Autostart, "")),
		AutomaticUpdates:      cmp.Or(w.AutomaticUpdates, updatesNever),
		Dormant:               ptr.To(w.Dormant),
		TTLMillis:             ptr.To(ptr.Deref(w.TTL, 0).Milliseconds()),
	}
	for _, name := range n.Parameters {
		v, ok := "", false
		if n.Values != nil {
			v, ok = n.Values.Values[name]
		}
		if n.Change != nil {
			if i := slices.IndexFunc(n.Change.Parameters, func(c value) bool { return c.Name == name }); i >= 0 {
				v, ok = n.Change.Parameters[i].Value, true
			}
		}
		if ok {
			spec.Parameters = append(spec.Parameters, aggregationv1alpha1.WorkspaceParameter{Name: name, Value: v})
		}
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

func isStarted(w coderd.Workspace) bool { return w.LatestBuild.Transition == coderd.TransitionStart }

func statusOf(w coderd.Workspace) aggregationv1alpha1.CoderWorkspaceStatus {
	build := w.LatestBuild
	status := aggregationv1alpha1.CoderWorkspaceStatus{
		ID:                w.ID.String(),
		Phase:             phaseOf(build),
		WorkspaceName:     w.Name,
		OwnerName:         w.OwnerName,
		OrganizationName:  w.OrganizationName,
		TemplateName:      w.TemplateName,
		LatestBuildID:     build.ID.String(),
		LatestBuildStatus: build.Status,
		LatestBuildError:  build.Error,
		LatestBuild: &aggregationv1alpha1.WorkspaceBuild{
			ID:                  build.ID.String(),
			Number:              build.Number,
			Transition:          string(build.Transition),
			Status:              build.Status,
			Reason:              build.Reason,
			Error:               build.Error,
			UnmatchedTags:       build.UnmatchedTags,
			TemplateVersionID:   build.TemplateVersionID.String(),
			TemplateVersionName: build.TemplateVersionName,
			CreatedAt:           ptr.To(registry.Seconds(build.CreatedAt)),
		},
		Outdated: w.Outdated,
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

// valuesOf returns the values of all parameters in the newest build of a workspace.
func (k *Kind) valuesOf(ctx context.Context, connection connections.Connection, w coderd.Workspace) (map[string]string, error) {
	build := w.LatestBuild.ID
	if values, ok := k.values.Get(build); ok {
		return values.(map[string]string), nil
	}
	parameters, err := connection.Client.BuildParameters(ctx, build)
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(parameters))
	for _, p := range parameters {
		values[p.Name] = p.Value
	}
	k.values.Add(build, values)
	return values, nil
}

// named returns the values of the parameters that clients have set through this API. If Coder has
// no value for a parameter any more, the last value is kept.
func (n intent) named(all map[string]string) map[string]string {
	out := make(map[string]string, len(n.Parameters))
	for _, name := range n.Parameters {
		if v, ok := all[name]; ok {
			out[name] = v
			continue
		}
		if n.Values == nil {
			continue
		}
		if v, ok := n.Values.Values[name]; ok {
			out[name] = v
		}
	}
	return out
}

// refresh returns the intent with the values of the newest build.
func (k *Kind) refresh(ctx context.Context, connection connections.Connection, w coderd.Workspace, n intent) (intent, error) {
	if len(n.Parameters) == 0 {
		n.Values = nil
		return n, nil
	}
	if n.Values != nil && n.Values.Build == w.LatestBuild.ID {
		return n, nil
	}
	all, err := k.valuesOf(ctx, connection, w)
	if err != nil {
		return n, err
	}
	n.Values = &buildValues{Build: w.LatestBuild.ID, Values: n.named(all)}
	return n, nil
}

// shownError returns the error that the object shows for the same build. Another replica may have
// found it in the log.
func shownError(b coderd.Build, previous object) string {
	if previous == nil || previous.Status.LatestBuildID != b.ID.String() || previous.Status.LatestBuildStatus != b.Status ||
		previous.Status.LatestBuildError == "" {
		return b.Error
	}
	return previous.Status.LatestBuildError
}

// agentsOf returns the agents of a workspace, sorted by name, with the apps that are not hidden in Coder, sorted by slug.
func agentsOf(w coderd.Workspace, connection connections.Connection) []aggregationv1alpha1.WorkspaceAgent {
	var out []aggregationv1alpha1.WorkspaceAgent
	for _, a := range w.Agents {
		agent := aggregationv1alpha1.WorkspaceAgent{
			Name: a.Name, Status: a.Status, LifecycleState: a.LifecycleState,
			Version: a.Version, OperatingSystem: a.OperatingSystem, Architecture: a.Architecture,
			Directory: a.Directory,
		}
		for _, app := range a.Apps {
			if app.Hidden {
				continue
			}
			shown := aggregationv1alpha1.WorkspaceApp{Slug: app.Slug, DisplayName: app.DisplayName, URL: appURL(w, a, app, connection)}
			// An app without a health check is "disabled".
			if app.Health != "disabled" {
				shown.Health = app.Health
			}
			agent.Apps = append(agent.Apps, shown)
		}
		slices.SortStableFunc(agent.Apps, func(a, b aggregationv1alpha1.WorkspaceApp) int { return strings.Compare(a.Slug, b.Slug) })
		if a.Status != agentConnecting {
			agent.Unhealthy = a.Unhealthy
		}
		if a.ReadyAt != nil {
			agent.ReadyAt = ptr.To(registry.Seconds(*a.ReadyAt))
		}
		if a.DisconnectedAt != nil {
			agent.DisconnectedAt = ptr.To(registry.Seconds(*a.DisconnectedAt))
		}
		out = append(out, agent)
	}
	slices.SortStableFunc(out, func(a, b aggregationv1alpha1.WorkspaceAgent) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// appURL returns the URL at which Coder's own interface opens an app.
func appURL(w coderd.Workspace, agent coderd.Agent, app coderd.App, connection connections.Connection) string {
	if app.ExternalURL != "" {
		return app.ExternalURL
	}
	access, err := url.Parse(strings.TrimRight(connection.AccessURL, "/") + "/")
	if err != nil {
		access = &url.URL{Path: "/"}
	}
	if app.SubdomainName != "" && connection.WildcardHost != "" && app.Command == "" && access.Scheme != "" {
		return (&url.URL{Scheme: access.Scheme, Host: strings.Replace(connection.WildcardHost, "*", app.SubdomainName, 1), Path: "/"}).String()
	}
	at := access.JoinPath("@"+w.OwnerName, w.Name+"."+agent.Name)
	if app.Command != "" {
		at = at.JoinPath("terminal")
		at.RawQuery = url.Values{"command": {app.Command}}.Encode()
		return at.String()
	}
	return at.JoinPath("apps", app.Slug).String() + "/"
}

// healthOf reports whether a running workspace can be used. It returns nil if the workspace is not
// running, or while its agents connect for the first time.
func healthOf(status aggregationv1alpha1.CoderWorkspaceStatus) *bool {
	if status.LatestBuildStatus != statusRunning {
		return nil
	}
	// The order is that of the reasons of condition Ready.
	agents := meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionAgentsConnected)
	switch {
	case meta.FindStatusCondition(status.Conditions, aggregationv1alpha1.ConditionPodsHealthy) != nil:
		return ptr.To(false)
	case agents != nil && agents.Reason == aggregationv1alpha1.ReasonAgentsConnecting:
		return nil
	}
	return ptr.To(agents != nil && agents.Status == metav1.ConditionTrue && unhealthyAgents(status) == "")
}
