package tools

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/diagnosis"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

type setWorkspaceRunningInput struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	Running        bool   `json:"running" jsonschema:"true starts it, false stops it"`
	Wait           bool   `json:"wait,omitempty"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty"`
	Confirm        string `json:"confirm,omitempty"`
}

// setWorkspaceRunning uses the subresources start and stop instead of spec.running: they
// also build again after a failure, and they cannot fail with a conflict.
func setWorkspaceRunning(ctx context.Context, call *toolset.Call, in setWorkspaceRunningInput) (workspaceResult, error) {
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return workspaceResult{}, err
	}
	// A workspace whose last build failed or was canceled is built again, and a start or stop that Coder
	// refused is requested again.
	failed := ws.Status.Phase == "Failed" || ws.Status.Phase == "Canceled"
	stalled := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionStalled)
	refused := ws.Status.Phase != phaseAfter(in.Running) && stalled != nil && stalled.Status == metav1.ConditionTrue &&
		stalled.Reason == aggregationv1alpha1.ReasonChangeRefused
	out := workspaceResult{Updated: failed || refused || ptr.Deref(ws.Spec.Running, !in.Running) != in.Running}
	if out.Updated {
		action, resource, question := "start", startResource, ""
		if !in.Running {
			action, resource = "stop", stopResource
			question = fmt.Sprintf("Stop workspace %s of %s? Its processes are stopped.", ws.Name, ws.Status.OwnerName)
		}
		err := confirmed(ctx, call, ws, false, in.Confirm, question, func(ws *aggregationv1alpha1.CoderWorkspace, only bool) error {
			options := &client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{DryRun: dryRun(only)}}
			err := call.Kube.SubResource(action).Create(ctx, ws, &aggregationv1alpha1.CoderWorkspaceAction{}, options)
			return callError("create", resource+"."+aggregationGroup, ws.Namespace, ws.Name, err)
		})
		if err != nil {
			return workspaceResult{}, err
		}
		if ws, err = readWorkspace(ctx, call.Kube, in.Namespace, in.Name); err != nil {
			return workspaceResult{}, err
		}
	}
	return out.after(ctx, call, ws, in.Wait, in.Running, in.TimeoutSeconds)
}

// after returns the answer with the state of the workspace after the change. If wait is set,
// it waits until the workspace is ready in the phase Running or Stopped, or until it cannot become
// so without another action; the error says why it does not.
func (out workspaceResult) after(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, wait, running bool, timeoutSeconds int,
) (workspaceResult, error) {
	var err error
	if wait {
		deleted := fmt.Sprintf("workspace %s was deleted in the meantime; list_workspaces shows which exist", ws.Name)
		timeout := time.Duration(timeoutSeconds) * time.Second
		err = await(ctx, call, ws, timeout, deleted, func() (done bool, problem, message string) {
			conditions := ws.Status.Conditions
			ready := meta.IsStatusConditionTrue(conditions, aggregationv1alpha1.ConditionReady) && ws.Status.Phase == phaseAfter(running)
			return ready, workspaceProblem(ws, running), ws.Status.Phase + ": " + progressMessage(conditions)
		})
	}
	out.Workspace = describeWorkspace(ws)
	return out, err
}

func phaseAfter(running bool) string {
	if running {
		return "Running"
	}
	return "Stopped"
}

// workspaceProblem returns why the workspace cannot start or stop without another action, and
// the tool to call next. It returns "" if waiting can help.
func workspaceProblem(ws *aggregationv1alpha1.CoderWorkspace, running bool) string {
	stalled := stalledMessage(ws.Status.Conditions)
	switch phase := ws.Status.Phase; {
	case ws.DeletionTimestamp != nil, phase == "Deleting", phase == "Deleted":
		return fmt.Sprintf("workspace %s is being deleted; get_workspace shows its state", ws.Name)
	case stalled != "" && (phase == "Failed" || phase == "Canceled"):
		return stalled + "; get_build_logs shows the whole log"
	case stalled != "":
		return stalled + "; diagnose_workspace says what to do"
	}
	for _, agent := range ws.Status.Agents {
		if running && ws.Status.Phase == "Running" && agent.Status == "timeout" {
			return fmt.Sprintf("agent %q did not connect in time; diagnose_workspace says what to do", agent.Name)
		}
	}
	return ""
}

type createWorkspaceInput struct {
	Namespace      string            `json:"namespace"`
	Owner          string            `json:"owner" jsonschema:"user name in Coder"`
	Name           string            `json:"name" jsonschema:"the workspace's own name without dots, like dev"`
	Template       string            `json:"template" jsonschema:"organization.template, as list_templates names it"`
	VersionID      string            `json:"versionID,omitempty" jsonschema:"id of a template version; the active one if omitted"`
	Preset         string            `json:"preset,omitempty" jsonschema:"name of a preset of the template version"`
	Parameters     map[string]string `json:"parameters,omitempty"`
	Running        *bool             `json:"running,omitempty" jsonschema:"start it at once"`
	TTL            string            `json:"ttl,omitempty" jsonschema:"like 8h"`
	Autostart      string            `json:"autostart,omitempty"`
	DryRun         bool              `json:"dryRun,omitempty"`
	Wait           bool              `json:"wait,omitempty"`
	TimeoutSeconds int               `json:"timeoutSeconds,omitempty"`
}

func createWorkspace(ctx context.Context, call *toolset.Call, in createWorkspaceInput) (workspaceResult, error) {
	if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
		return workspaceResult{}, err
	}
	if err := refuseRedactedValues("parameter", in.Parameters); err != nil {
		return workspaceResult{}, err
	}
	dot := strings.LastIndex(in.Template, ".")
	ttl, err := ttlMillis(in.TTL)
	switch {
	case err != nil:
		return workspaceResult{}, err
	case in.TTL == never:
		return workspaceResult{}, toolset.UsageError("a new workspace cannot have the ttl never: omit ttl, and set it to never with update_workspace afterwards")
	case in.Owner == "" || strings.Contains(in.Owner, "."):
		return workspaceResult{}, toolset.UsageError(fmt.Sprintf("owner %q is not a valid user name in Coder", in.Owner))
	case strings.Contains(in.Name, "."):
		return workspaceResult{}, toolset.UsageError(fmt.Sprintf("name %q has a dot: give only the workspace's own name, such as dev; organization and owner are added", in.Name))
	case dot <= 0 || dot == len(in.Template)-1:
		return workspaceResult{}, toolset.UsageError(fmt.Sprintf("template %q must be organization.template, as list_templates names it, for example %q", in.Template, "coder."+strings.Trim(in.Template, ".")))
	}
	// The API resolves the current names in Coder of the organization and the template.
	organization, template, err := templateInCoder(ctx, call.Kube, in.Namespace, in.Template)
	if err != nil {
		return workspaceResult{}, err
	}
	controlPlane, _, _ := splitTemplateName(in.Template)
	name := strings.Join([]string{controlPlane, organization, in.Owner, in.Name}, ".")
	ws := &aggregationv1alpha1.CoderWorkspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: strings.ToLower(strings.TrimPrefix(name, "."))},
		Spec: aggregationv1alpha1.CoderWorkspaceSpec{
			TemplateName:          template,
			TemplateVersionID:     in.VersionID,
			TemplateVersionPreset: in.Preset,
			Running:               in.Running,
			TTLMillis:             ttl,
			AutostartSchedule:     autostartSchedule(in.Autostart),
		},
	}
	setParameters(&ws.Spec, in.Parameters)
	if err := call.Kube.Create(ctx, ws, &client.CreateOptions{DryRun: dryRun(in.DryRun)}); err != nil {
		return workspaceResult{}, callError("create", workspaceResource, in.Namespace, ws.Name, err)
	}
	if in.DryRun {
		return workspaceResult{Workspace: describeWorkspace(ws), Message: wouldBeAccepted("the build")}, nil
	}
	return workspaceResult{Updated: true}.after(ctx, call, ws, in.Wait, ptr.Deref(in.Running, true), in.TimeoutSeconds)
}

func setParameters(spec *aggregationv1alpha1.CoderWorkspaceSpec, values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parameter := aggregationv1alpha1.WorkspaceParameter{Name: name, Value: values[name]}
		spec.Parameters = replaceOrAppend(spec.Parameters, parameter, func(p aggregationv1alpha1.WorkspaceParameter) bool { return p.Name == name })
	}
}

// replaceOrAppend replaces the first item for which is returns true, or appends the new one.
func replaceOrAppend[T any](items []T, item T, is func(T) bool) []T {
	if i := slices.IndexFunc(items, is); i >= 0 {
		items[i] = item
		return items
	}
	return append(items, item)
}

type updateWorkspaceInput struct {
	Namespace        string            `json:"namespace"`
	Name             string            `json:"name"`
	VersionID        string            `json:"versionID,omitempty" jsonschema:"or active"`
	Parameters       map[string]string `json:"parameters,omitempty"`
	TTL              string            `json:"ttl,omitempty" jsonschema:"like 8h, or never"`
	Autostart        string            `json:"autostart,omitempty"`
	AutomaticUpdates string            `json:"automaticUpdates,omitempty" jsonschema:"whether a start takes the active template version" enum:"always,never"`
	Dormant          *bool             `json:"dormant,omitempty" jsonschema:"true locks it away, false brings it back"`
	DryRun           bool              `json:"dryRun,omitempty"`
	Wait             bool              `json:"wait,omitempty"`
	TimeoutSeconds   int               `json:"timeoutSeconds,omitempty"`
	Confirm          string            `json:"confirm,omitempty"`
}

func updateWorkspace(ctx context.Context, call *toolset.Call, in updateWorkspaceInput) (workspaceResult, error) {
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return workspaceResult{}, err
	}
	if err := refuseRedactedValues("parameter", in.Parameters); err != nil {
		return workspaceResult{}, err
	}
	if _, err := ttlMillis(in.TTL); err != nil {
		return workspaceResult{}, err
	}
	if in.VersionID == "active" {
		tmpl, err := diagnosis.TemplateOf(ctx, call.Kube, ws)
		switch {
		case err != nil:
			return workspaceResult{}, callError("list", templateResource, ws.Namespace, "", err)
		case tmpl == nil:
			return workspaceResult{}, toolset.UsageError(fmt.Sprintf("the API has no template %q in organization %q, of which this workspace is: "+
				"find it with list_templates, and give its active version as versionID", ws.Status.TemplateName, ws.Status.OrganizationName))
		}
		in.VersionID = tmpl.Status.ActiveVersionID
	}
	updated := false
	err = confirmed(ctx, call, ws, in.DryRun, in.Confirm, in.question(ws), func(ws *aggregationv1alpha1.CoderWorkspace, only bool) (err error) {
		updated, err = in.write(ctx, call, ws, only)
		return err
	})
	if err != nil {
		return workspaceResult{}, err
	}
	out := workspaceResult{Updated: updated && !in.DryRun}
	switch {
	case !updated:
		out.Message = "the workspace already has these values; nothing was changed"
	case in.DryRun:
		out.Message = wouldBeAccepted("the build")
	}
	return out.after(ctx, call, ws, in.Wait && !in.DryRun, ptr.Deref(ws.Spec.Running, false), in.TimeoutSeconds)
}

// apply sets the arguments in a spec, and keeps what is not given.
func (in updateWorkspaceInput) apply(spec *aggregationv1alpha1.CoderWorkspaceSpec) {
	if in.VersionID != "" {
		spec.TemplateVersionID = strings.ToLower(in.VersionID)
	}
	setParameters(spec, in.Parameters)
	if ttl, err := ttlMillis(in.TTL); err == nil && ttl != nil && *ttl != ptr.Deref(spec.TTLMillis, 0) {
		spec.TTLMillis = ttl
	}
	if schedule := autostartSchedule(in.Autostart); schedule != nil && *schedule != ptr.Deref(spec.AutostartSchedule, "") {
		spec.AutostartSchedule = schedule
	}
	if in.AutomaticUpdates != "" {
		spec.AutomaticUpdates = in.AutomaticUpdates
	}
	if in.Dormant != nil {
		spec.Dormant = in.Dormant
		if *in.Dormant {
			// A dormant workspace is stopped.
			spec.Running = ptr.To(false)
		}
	}
}

// question returns the question to confirm the change, or "" if the change interrupts
// nothing.
func (in updateWorkspaceInput) question(ws *aggregationv1alpha1.CoderWorkspace) string {
	wanted := ws.Spec.DeepCopy()
	in.apply(wanted)
	rebuilds := wanted.TemplateVersionID != ws.Spec.TemplateVersionID || !slices.Equal(wanted.Parameters, ws.Spec.Parameters)
	sleeps := ptr.Deref(wanted.Dormant, false) && !ptr.Deref(ws.Spec.Dormant, false)
	switch {
	case sleeps:
		return fmt.Sprintf("Put workspace %s of %s to sleep? It is stopped, and cannot start until it is woken.", ws.Name, ws.Status.OwnerName)
	case rebuilds:
		return fmt.Sprintf("Build workspace %s of %s again? Its processes are stopped, and data that its template does not keep is lost.", ws.Name, ws.Status.OwnerName)
	default:
		return ""
	}
}

// write writes the change to the API. updated is false if there is nothing to change.
func (in updateWorkspaceInput) write(ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, only bool) (updated bool, err error) {
	err = updateSpec(ctx, call, workspaceResource, ws, only, func() bool {
		before := ws.Spec.DeepCopy()
		in.apply(&ws.Spec)
		updated = !equality.Semantic.DeepEqual(*before, ws.Spec)
		return updated
	})
	return updated, err
}

// never is the argument that removes a schedule.
const never = "never"

// ttlMillis parses a duration. It returns nil for "" and 0 for never.
func ttlMillis(ttl string) (*int64, error) {
	switch ttl {
	case "":
		return nil, nil
	case never:
		return ptr.To[int64](0), nil
	}
	d, err := time.ParseDuration(ttl)
	if err != nil || d < time.Minute {
		return nil, toolset.UsageError(fmt.Sprintf("ttl %q is not a valid duration: give at least 1m, for example 8h or 90m, or %s", ttl, never))
	}
	return ptr.To(d.Milliseconds()), nil
}

// autostartSchedule returns nil for "" and a pointer to "" for never.
func autostartSchedule(schedule string) *string {
	switch schedule {
	case "":
		return nil
	case never:
		return ptr.To("")
	default:
		return &schedule
	}
}

type deleteWorkspaceInput struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	Orphan         bool   `json:"orphan,omitempty" jsonschema:"without its build, so its resources stay"`
	DryRun         bool   `json:"dryRun,omitempty"`
	Wait           bool   `json:"wait,omitempty"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty"`
	Confirm        string `json:"confirm,omitempty"`
}

// deleteWorkspaceOutput contains the last observed state of the workspace. Updated is false
// if the workspace was already being deleted.
type deleteWorkspaceOutput struct {
	Workspace workspace `json:"workspace"`
	Updated   bool      `json:"updated"`
	Gone      bool      `json:"gone"`
	// Left are the pods and volume claims that a deletion without a build leaves.
	Left    []string `json:"left,omitempty"`
	Message string   `json:"message,omitempty"`
}

func deleteWorkspace(ctx context.Context, call *toolset.Call, in deleteWorkspaceInput) (deleteWorkspaceOutput, error) {
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return deleteWorkspaceOutput{}, err
	}
	out := deleteWorkspaceOutput{Workspace: describeWorkspace(ws)}
	if in.Orphan {
		out.Left = leftovers(ctx, call.Kube, ws)
	}
	if ws.DeletionTimestamp == nil || in.Orphan {
		question := fmt.Sprintf("Delete workspace %s of %s with all its data? It cannot be brought back.", ws.Name, ws.Status.OwnerName)
		if in.Orphan {
			question = fmt.Sprintf("Delete workspace %s of %s in Coder only? It cannot be brought back. What its template created stays, in this cluster: %s.",
				ws.Name, ws.Status.OwnerName, cmp.Or(strings.Join(out.Left, ", "), "nothing with Coder's label"))
		}
		err := confirmed(ctx, call, ws, in.DryRun, in.Confirm, question, func(ws *aggregationv1alpha1.CoderWorkspace, only bool) error {
			if in.Orphan {
				body := &aggregationv1alpha1.CoderWorkspaceAction{ObjectMeta: metav1.ObjectMeta{UID: ws.UID}}
				options := &client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{DryRun: dryRun(only)}}
				return callError("create", orphanResource+"."+aggregationGroup, in.Namespace, in.Name, call.Kube.SubResource("orphan").Create(ctx, ws, body, options))
			}
			// The UID precondition prevents the deletion of a new workspace of the same name.
			options := &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &ws.UID}, DryRun: dryRun(only)}
			return callError("delete", workspaceResource, in.Namespace, in.Name, call.Kube.Delete(ctx, ws, options))
		})
		if err != nil {
			return deleteWorkspaceOutput{}, err
		}
		out.Updated = !in.DryRun
	}
	if in.DryRun {
		out.Message = wouldBeAccepted("whether the build that destroys its resources succeeds")
		if in.Orphan {
			out.Message = wouldBeAccepted("what stays outside of this cluster")
		}
		return out, nil
	}
	if in.Wait {
		before := int32(0)
		if in.Orphan && ws.Status.LatestBuild != nil {
			before = ws.Status.LatestBuild.Number
		}
		out.Gone, err = awaitDeletion(ctx, call, ws, before, in.TimeoutSeconds)
		out.Workspace = describeWorkspace(ws)
	}
	return out, err
}

// mostLeftovers limits the objects of one kind in an answer.
const mostLeftovers = 20

// leftovers returns the pods and volume claims with Coder's label for a workspace: in all namespaces if the
// caller may list them, or else in that of the workspace.
func leftovers(ctx context.Context, kube *callers.Kube, ws *aggregationv1alpha1.CoderWorkspace) []string {
	var found []string
	for _, kind := range []string{"Pod", "PersistentVolumeClaim"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
		options := []client.ListOption{client.MatchingLabels{aggregationv1alpha1.LabelWorkspaceID: ws.Status.ID}, client.Limit(mostLeftovers)}
		err := kube.List(ctx, list, options...)
		if apierrors.IsForbidden(err) {
			err = kube.List(ctx, list, append(options, client.InNamespace(ws.Namespace))...)
		}
		if err != nil {
			found = append(found, kind+"s that cannot be listed ("+excerpt(err.Error())+")")
		}
		for _, item := range list.Items[:min(len(list.Items), mostLeftovers)] {
			found = append(found, fmt.Sprintf("%s %s/%s", kind, item.Namespace, item.Name))
		}
	}
	return found
}

// awaitDeletion waits until the workspace no longer exists or its deletion has failed, in a build after
// that with the number before.
func awaitDeletion(
	ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace, before int32, timeoutSeconds int,
) (gone bool, err error) {
	failure := func() string {
		failed := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionDeletionFailed)
		stalled := stalledMessage(ws.Status.Conditions)
		b := ptr.Deref(ws.Status.LatestBuild, aggregationv1alpha1.WorkspaceBuild{})
		switch {
		case b.Number <= before && before > 0:
			return ""
		case failed != nil:
			return excerpt(failed.Message)
		case b.UnmatchedTags != "":
			return stalled
		}
		return ""
	}
	gone, err = call.Until(ctx, ws, time.Duration(timeoutSeconds)*time.Second, func() (bool, string) {
		return failure() != "", ws.Status.Phase + ": " + progressMessage(ws.Status.Conditions)
	})
	if err == nil && !gone {
		err = toolset.Failed(fmt.Sprintf("the deletion failed: %s; get_build_logs shows the whole log", failure()))
	}
	return gone, err
}
