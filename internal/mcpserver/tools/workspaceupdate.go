package tools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/diagnosis"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

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
	if in, err = in.resolved(ctx, call, ws); err != nil {
		return workspaceResult{}, err
	}
	updated := false
	ask := confirmation{dryRun: in.DryRun, confirm: in.Confirm, question: in.question(ws)}
	err = confirmed(ctx, call, ws, ask, func(ws *aggregationv1alpha1.CoderWorkspace, only bool) (err error) {
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

// resolved returns the arguments with the ID of the version, if that is active. It returns an
// error for an invalid argument.
func (in updateWorkspaceInput) resolved(ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace) (updateWorkspaceInput, error) {
	err := refuseRedactedValues("parameter", in.Parameters)
	if err == nil {
		_, err = ttlMillis(in.TTL)
	}
	if err == nil && in.VersionID == "active" {
		in.VersionID, err = activeVersionFor(ctx, call, ws)
	}
	return in, err
}

// activeVersionFor returns the active version of the workspace's template.
func activeVersionFor(ctx context.Context, call *toolset.Call, ws *aggregationv1alpha1.CoderWorkspace) (string, error) {
	tmpl, err := diagnosis.TemplateOf(ctx, call.Kube, ws)
	switch {
	case err != nil:
		return "", callError("list", templateResource, ws.Namespace, "", err)
	case tmpl == nil:
		return "", toolset.UsageError(fmt.Sprintf("the API has no template %q in organization %q, of which this workspace is: "+
			"find it with list_templates, and give its active version as versionID", ws.Status.TemplateName, ws.Status.OrganizationName))
	}
	return tmpl.Status.ActiveVersionID, nil
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

// workspaceSchedule uses the same formats as the arguments of update_workspace.
type workspaceSchedule struct {
	TTL              string `json:"ttl"`
	Autostart        string `json:"autostart"`
	AutomaticUpdates string `json:"automaticUpdates,omitempty"`
	Dormant          bool   `json:"dormant"`
}

func describeSchedule(spec aggregationv1alpha1.CoderWorkspaceSpec) workspaceSchedule {
	schedule := workspaceSchedule{
		TTL: never, Autostart: never, AutomaticUpdates: spec.AutomaticUpdates, Dormant: ptr.Deref(spec.Dormant, false),
	}
	if spec.TTLMillis != nil && *spec.TTLMillis > 0 {
		schedule.TTL = (time.Duration(*spec.TTLMillis) * time.Millisecond).String()
	}
	if spec.AutostartSchedule != nil && *spec.AutostartSchedule != "" {
		schedule.Autostart = *spec.AutostartSchedule
	}
	return schedule
}
