package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	// restartedAtAnnotation is the annotation that "kubectl rollout restart" sets. The tool
	// uses the same one, so that a restart is recorded in the usual place.
	restartedAtAnnotation = "kubectl.kubernetes.io/restartedAt"
	// changeFieldOwner is the field manager of the changed fields.
	changeFieldOwner = client.FieldOwner("coder-k8s-mcp")

	scaleResource = controlPlanePlural + "/scale"
)

type changeControlPlaneInput struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	Restart        bool   `json:"restart,omitempty" jsonschema:"replace all pods, one after the other"`
	Replicas       *int32 `json:"replicas,omitempty" jsonschema:"number of pods" minimum:"0"`
	Image          string `json:"image,omitempty" jsonschema:"Coder image with tag, like ghcr.io/coder/coder:v2.34.8"`
	DryRun         bool   `json:"dryRun,omitempty"`
	Wait           bool   `json:"wait,omitempty"`
	TimeoutSeconds int    `json:"timeoutSeconds,omitempty"`
	Confirm        string `json:"confirm,omitempty"`
}

// changeControlPlaneOutput is the spec before and after the change; with a dry run, After
// is the expected result. Ready and Message describe the last observed state.
type changeControlPlaneOutput struct {
	Changed bool              `json:"changed"`
	Before  controlPlaneState `json:"before"`
	After   controlPlaneState `json:"after"`
	Ready   bool              `json:"ready"`
	Message string            `json:"message,omitempty"`
}

// controlPlaneState holds the fields that the tool can change. RestartedAt is set only if a
// restart is requested.
type controlPlaneState struct {
	Image       string `json:"image"`
	Replicas    int32  `json:"replicas"`
	RestartedAt string `json:"restartedAt,omitempty"`
}

func changeControlPlane(ctx context.Context, call *toolset.Call, in changeControlPlaneInput) (changeControlPlaneOutput, error) {
	change, err := planChange(ctx, call, in)
	if err != nil {
		return changeControlPlaneOutput{}, err
	}
	cp := change.controlPlane
	err = confirmed(ctx, call, cp, in.DryRun, in.Confirm, change.question(), func(_ *coderv1alpha1.CoderControlPlane, only bool) error {
		options := &client.PatchOptions{DryRun: dryRun(only)}
		changeFieldOwner.ApplyToPatch(options)
		for _, step := range change.steps {
			if err := step.patch(ctx, call.Kube, change, options); err != nil {
				return err
			}
			if !only {
				call.Progress(ctx, "done: "+step.words)
			}
		}
		return nil
	})
	if err != nil {
		return changeControlPlaneOutput{}, err
	}
	out := changeControlPlaneOutput{Changed: !in.DryRun && len(change.steps) > 0, Before: change.before, After: change.after}
	if out.Changed {
		if change.controlPlane, err = readControlPlane(ctx, call.Kube, in.Namespace, in.Name); err != nil {
			return changeControlPlaneOutput{}, err
		}
		out.After.Image, out.After.Replicas = change.controlPlane.Spec.Image, wantedReplicas(change.controlPlane)
	}
	if in.Wait && !in.DryRun {
		err = change.wait(ctx, call, time.Duration(in.TimeoutSeconds)*time.Second)
	}
	out.Ready, out.Message = settled(change.controlPlane)
	switch {
	case in.DryRun && len(change.steps) == 0:
		out.Message = "dry run: it already has these values; nothing would change"
	case in.DryRun:
		out.Message = wouldBeAccepted("whether the image can be pulled, and whether the pods can be scheduled and become ready")
	}
	return out, err
}

type controlPlaneChange struct {
	controlPlane *coderv1alpha1.CoderControlPlane
	// deployment is set only if the change includes a restart.
	deployment    *appsv1.Deployment
	before, after controlPlaneState
	// steps contains only the requested settings that differ from the current ones.
	steps []changeStep
}

type changeStep struct {
	// words describes the step to the user, in the imperative.
	words string
	patch func(ctx context.Context, kube *callers.Kube, change *controlPlaneChange, options *client.PatchOptions) error
}

func planChange(ctx context.Context, call *toolset.Call, in changeControlPlaneInput) (*controlPlaneChange, error) {
	if !in.Restart && in.Replicas == nil && in.Image == "" {
		return nil, toolset.UsageError("nothing to change was given: give restart, replicas or image")
	}
	cp, err := readControlPlane(ctx, call.Kube, in.Namespace, in.Name)
	if err != nil {
		return nil, err
	}
	if cp.DeletionTimestamp != nil {
		return nil, toolset.UsageError(fmt.Sprintf("control plane %s/%s is being deleted; nothing can be changed", in.Namespace, in.Name))
	}
	before := controlPlaneState{Image: cp.Spec.Image, Replicas: wantedReplicas(cp)}
	change := &controlPlaneChange{controlPlane: cp, before: before, after: before}
	if in.Image != "" && in.Image != before.Image {
		change.after.Image = in.Image
		change.steps = append(change.steps, changeStep{fmt.Sprintf("set its image from %s to %s", before.Image, in.Image), patchImage})
	}
	if in.Replicas != nil && *in.Replicas != before.Replicas {
		change.after.Replicas = *in.Replicas
		change.steps = append(change.steps, changeStep{fmt.Sprintf("scale it from %d to %d pods", before.Replicas, *in.Replicas), patchScale})
	}
	if in.Restart {
		if change.deployment, err = readDeployment(ctx, call.Kube, cp.Namespace, cp.Name); err != nil {
			return nil, err
		}
		if !metav1.IsControlledBy(change.deployment, cp) {
			return nil, toolset.UsageError(fmt.Sprintf(
				"Deployment %s/%s does not belong to the control plane of that name and is not restarted; get_control_plane_status shows its conditions", cp.Namespace, cp.Name))
		}
		change.before.RestartedAt = excerpt(change.deployment.Spec.Template.Annotations[restartedAtAnnotation])
		change.after.RestartedAt = call.Now().UTC().Format(time.RFC3339)
		change.steps = append(change.steps, changeStep{"restart its pods", patchRestart})
	}
	return change, nil
}

func wantedReplicas(cp *coderv1alpha1.CoderControlPlane) int32 {
	return ptr.Deref(cp.Spec.Replicas, 1)
}

// question returns the question to confirm the change. It returns "" for a change that only
// adds pods, because it interrupts no connections.
func (c *controlPlaneChange) question() string {
	var words []string
	for _, step := range c.steps {
		words = append(words, step.words)
	}
	if len(words) == 0 || c.deployment == nil && c.after.Image == c.before.Image && c.after.Replicas > c.before.Replicas {
		return ""
	}
	return fmt.Sprintf("Change control plane %s/%s: %s? Its users may lose their connection.", c.controlPlane.Namespace, c.controlPlane.Name, strings.Join(words, ", "))
}

func patchImage(ctx context.Context, kube *callers.Kube, change *controlPlaneChange, options *client.PatchOptions) error {
	cp := change.controlPlane.DeepCopy()
	cp.Spec.Image = change.after.Image
	err := kube.Patch(ctx, cp, client.MergeFrom(change.controlPlane), options)
	return callError("patch", controlPlaneResource, cp.Namespace, cp.Name, err)
}

// patchScale patches the scale subresource, so that permission to scale is sufficient.
func patchScale(ctx context.Context, kube *callers.Kube, change *controlPlaneChange, options *client.PatchOptions) error {
	cp := change.controlPlane.DeepCopy()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, change.after.Replicas))
	body := &client.SubResourcePatchOptions{PatchOptions: *options, SubResourceBody: &autoscalingv1.Scale{}}
	return callError("patch", scaleResource+"."+coderGroup, cp.Namespace, cp.Name, kube.SubResource("scale").Patch(ctx, cp, patch, body))
}

// patchRestart does the same as "kubectl rollout restart". The patch contains the UID, so
// the API rejects it if the Deployment was deleted and created again in the meantime.
func patchRestart(ctx context.Context, kube *callers.Kube, change *controlPlaneChange, options *client.PatchOptions) error {
	d := change.deployment.DeepCopy()
	patch := client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil,
		`{"metadata":{"uid":%q},"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, d.UID, restartedAtAnnotation, change.after.RestartedAt))
	if err := kube.Patch(ctx, d, patch, options); err != nil {
		return callError("patch", deploymentResource, d.Namespace, d.Name, err)
	}
	change.deployment = d
	return nil
}

// wait returns when the control plane has reached its spec, or when a user must act. The
// status of the control plane does not show a restart, so wait waits for the Deployment's
// rollout first.
func (c *controlPlaneChange) wait(ctx context.Context, call *toolset.Call, timeout time.Duration) error {
	start := call.Now()
	deleted := func(noun string) string {
		return fmt.Sprintf("the %s %s/%s was deleted in the meantime; list_control_planes shows which exist", noun, c.controlPlane.Namespace, c.controlPlane.Name)
	}
	if c.deployment != nil {
		err := await(ctx, call, c.deployment, timeout, deleted("Deployment"), func() (done bool, problem, message string) {
			for _, condition := range c.deployment.Status.Conditions {
				// See kubectl rollout status.
				if condition.Type == appsv1.DeploymentProgressing && condition.Reason == "ProgressDeadlineExceeded" &&
					c.deployment.Status.ObservedGeneration >= c.deployment.Generation {
					problem = excerpt(condition.Message) + "; diagnose_control_plane says what to do"
					break
				}
			}
			done, message = rolledOut(c.deployment)
			return done, problem, message
		})
		if err != nil {
			return err
		}
		// The status that was read before the rollout describes the old pods, so the
		// control plane is read again.
		c.controlPlane.ResourceVersion, c.controlPlane.Status = "", coderv1alpha1.CoderControlPlaneStatus{}
		if timeout > 0 {
			timeout = max(timeout-call.Now().Sub(start), time.Second)
		}
	}
	return await(ctx, call, c.controlPlane, timeout, deleted("control plane"), func() (done bool, problem, message string) {
		stalled := stalledMessage(c.controlPlane.Status.Conditions)
		switch {
		case c.controlPlane.DeletionTimestamp != nil:
			problem = "the control plane is being deleted; get_control_plane_status shows its state"
		case stalled != "" && c.controlPlane.Status.ObservedGeneration >= c.controlPlane.Generation:
			problem = stalled + "; diagnose_control_plane says what to do"
		}
		done, message = settled(c.controlPlane)
		return done, problem, message
	})
}

// rolledOut reports whether all pods have the newest revision and the desired number of
// them is available.
func rolledOut(d *appsv1.Deployment) (ok bool, message string) {
	wanted := ptr.Deref(d.Spec.Replicas, 1)
	status := d.Status
	ok = status.ObservedGeneration >= d.Generation && status.UpdatedReplicas >= wanted &&
		status.Replicas <= status.UpdatedReplicas && status.AvailableReplicas >= wanted
	if status.ObservedGeneration < d.Generation {
		return false, "the rollout has not started yet"
	}
	return ok, fmt.Sprintf("%d of %d pods are new, %d ready", status.UpdatedReplicas, wanted, min(status.ReadyReplicas, status.UpdatedReplicas))
}

// settled reports whether the control plane is ready at its current generation.
func settled(cp *coderv1alpha1.CoderControlPlane) (ready bool, message string) {
	reason, message := readiness(cp.Status.Conditions)
	switch {
	case cp.Status.ObservedGeneration < cp.Generation:
		return false, "the operator has not reconciled the newest spec yet"
	case reason == "":
		return false, "the operator has not reconciled it yet"
	default:
		return cp.Status.Phase == coderv1alpha1.PhaseReady, reason + ": " + message
	}
}
