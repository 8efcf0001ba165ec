package workspace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/metadata"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/workspacepods"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// situation holds the inputs from which the conditions are derived.
type situation struct {
	// object is complete except for the conditions.
	object object
	build  coderd.Build
	intent intent
	// pods is the problem of the pods, or nil.
	pods *workspacepods.Problem
	// stuck is true if no provisioner has taken the build for a while, because none has its tags.
	stuck bool
	// recorded is true if the deletion was requested through this API. Such a deletion is retried
	// until the workspace is gone.
	recorded bool
}

// unmatchedFor is how long a build waits for a provisioner with its tags until a user must act. An
// autoscaler may need the time to start one.
const unmatchedFor = time.Minute

// conditions returns all conditions of an object that is complete otherwise. UpdatedAt is the time of the last change of its
// newest build, or zero if unknown.
func (k *Kind) conditions(ws object, record *metadata.Record, n intent, updatedAt time.Time, previous object) []metav1.Condition {
	s := situation{object: ws, intent: n, recorded: record != nil && record.DeletionTimestamp != nil}
	if b := ws.Status.LatestBuild; b != nil {
		s.build = coderd.Build{
			Number: b.Number, Transition: coderd.Transition(b.Transition), Status: b.Status, Error: b.Error,
			UnmatchedTags: b.UnmatchedTags, UpdatedAt: updatedAt,
		}
		if b.CreatedAt != nil {
			s.build.CreatedAt = b.CreatedAt.Time
		}
	}
	s.pods = k.podProblem(s, previous)
	s.stuck = s.build.UnmatchedTags != "" && coderd.Elapsed(k.Clock.Now(), s.build.CreatedAt, unmatchedFor)
	build, agents := buildVerdict(s.build), agentsVerdict(s.object.Status)
	ready := s.ready(build, agents)
	outdated := registry.False(aggregationv1alpha1.ReasonUpToDate, "the workspace has the active version of its template")
	if ws.Status.Outdated {
		outdated = registry.True(aggregationv1alpha1.ReasonOutdated, "the template has a newer active version")
	}
	out := []metav1.Condition{
		ready.Condition(aggregationv1alpha1.ConditionReady),
		s.reconciling(ready, build, agents).Condition(aggregationv1alpha1.ConditionReconciling),
		s.stalled(ready, build).Condition(aggregationv1alpha1.ConditionStalled),
		syncedVerdict(s.intent).Condition(aggregationv1alpha1.ConditionSynced),
		build.Condition(aggregationv1alpha1.ConditionBuildSucceeded),
		agents.Condition(aggregationv1alpha1.ConditionAgentsConnected),
		outdated.Condition(aggregationv1alpha1.ConditionOutdated),
	}
	if s.pods != nil {
		out = append(out, registry.False(s.pods.Reason, s.pods.Message).Condition(aggregationv1alpha1.ConditionPodsHealthy))
	}
	if v, failed := s.deletionFailed(); failed {
		out = append(out, v.Condition(aggregationv1alpha1.ConditionDeletionFailed))
	}
	for i := range out {
		out[i].ObservedGeneration = s.object.Status.ObservedGeneration
		out[i].LastTransitionTime = k.changedAt(out[i], s.build, previous)
	}
	return out
}

// changedAt returns the last transition time of a condition. It is unchanged if the status is.
// Otherwise it is the time of the newest build if that changed after the last transition, and else
// now.
func (k *Kind) changedAt(c metav1.Condition, build coderd.Build, previous object) metav1.Time {
	at := registry.Seconds(build.UpdatedAt)
	if previous == nil {
		return at
	}
	before := meta.FindStatusCondition(previous.Status.Conditions, c.Type)
	switch {
	case before == nil && c.Type == aggregationv1alpha1.ConditionPodsHealthy:
		return registry.Seconds(k.Clock.Now())
	case before == nil && c.Type != aggregationv1alpha1.ConditionDeletionFailed:
		return at
	case before != nil && before.Status == c.Status:
		return before.LastTransitionTime
	case before != nil && at.After(before.LastTransitionTime.Time), before == nil:
		return at
	default:
		return registry.Seconds(k.Clock.Now())
	}
}

func buildVerdict(b coderd.Build) registry.Verdict {
	switch b.Status {
	case statusPending:
		if b.UnmatchedTags != "" {
			return registry.Unknown(aggregationv1alpha1.ReasonNoProvisioner, fmt.Sprintf(
				"the %s build waits for a provisioner with the tags %s, and none is connected", b.Transition, b.UnmatchedTags))
		}
		return registry.Unknown(aggregationv1alpha1.ReasonBuildPending, fmt.Sprintf("the %s build waits for a provisioner", b.Transition))
	case statusStarting, statusStopping, statusDeleting, statusCanceling:
		return registry.Unknown(aggregationv1alpha1.ReasonBuildRunning, fmt.Sprintf("the %s build is in progress", b.Transition))
	case statusFailed:
		return registry.False(aggregationv1alpha1.ReasonBuildFailed, fmt.Sprintf("the %s build failed: %s", b.Transition, cmp.Or(b.Error, registry.NoReason)))
	case statusCanceled:
		return registry.False(aggregationv1alpha1.ReasonBuildCanceled, fmt.Sprintf("the %s build was canceled", b.Transition))
	case statusRunning, statusStopped, statusDeleted:
		return registry.True(aggregationv1alpha1.ReasonBuildSucceeded, fmt.Sprintf("the %s build succeeded", b.Transition))
	default:
		return registry.Unknown(aggregationv1alpha1.ReasonBuildRunning, fmt.Sprintf("the status of the %s build is %q", b.Transition, b.Status))
	}
}

func agentsVerdict(status aggregationv1alpha1.CoderWorkspaceStatus) registry.Verdict {
	if status.LatestBuildStatus != statusRunning {
		return registry.False(aggregationv1alpha1.ReasonStopped, "the workspace is not running")
	}
	if len(status.Agents) == 0 {
		return registry.True(aggregationv1alpha1.ReasonNoAgents, "the workspace has no agents")
	}
	var connecting, lost []string
	for _, a := range status.Agents {
		switch a.Status {
		case agentConnected:
		case agentConnecting:
			connecting = append(connecting, a.Name)
		default:
			lost = append(lost, fmt.Sprintf("agent %q is not connected (%s)", a.Name, a.Status))
		}
	}
	switch {
	case len(lost) > 0:
		return registry.False(aggregationv1alpha1.ReasonAgentsUnavailable, strings.Join(lost, ", ")+
			"; check that the pod or machine of the workspace runs the script of the agent, and can reach the access URL of Coder")
	case len(connecting) > 0:
		return registry.False(aggregationv1alpha1.ReasonAgentsConnecting, "agents that have not connected yet: "+strings.Join(connecting, ", "))
	default:
		return registry.True(aggregationv1alpha1.ReasonAgentsConnected, "all agents are connected")
	}
}

// unhealthyAgents returns the problems that Coder reports for connected agents.
func unhealthyAgents(status aggregationv1alpha1.CoderWorkspaceStatus) string {
	var all []string
	for _, a := range status.Agents {
		if a.Status == agentConnected && a.Unhealthy != "" {
			all = append(all, fmt.Sprintf("agent %q is connected but unhealthy (%s): %s", a.Name, a.LifecycleState, a.Unhealthy))
		}
	}
	return strings.Join(all, ", ")
}

// podProblem returns the problem of the pods of a workspace that is starting or running, or nil.
func (k *Kind) podProblem(s situation, previous object) *workspacepods.Problem {
	if k.pods == nil || s.build.Transition != coderd.TransitionStart || s.object.DeletionTimestamp != nil {
		return nil
	}
	id, err := uuid.Parse(s.object.Status.ID)
	if err != nil {
		return nil
	}
	builtAt, shown := time.Time{}, shownProblem(s, previous)
	if s.build.Status == statusRunning {
		if builtAt = s.build.UpdatedAt; builtAt.IsZero() {
			// Coder was not read, so it is not known whether a pod was deleted before the build.
			return shown
		}
	}
	return k.pods.Problem(metadata.ControlPlaneOf(s.object), id, builtAt, shown)
}

// shownProblem returns the problem of the pods that the object shows for the current build, or nil.
func shownProblem(s situation, previous object) *workspacepods.Problem {
	if previous == nil || previous.Status.LatestBuild == nil || previous.Status.LatestBuild.Number != s.build.Number {
		return nil
	}
	c := meta.FindStatusCondition(previous.Status.Conditions, aggregationv1alpha1.ConditionPodsHealthy)
	if c == nil {
		return nil
	}
	stalled := meta.FindStatusCondition(previous.Status.Conditions, aggregationv1alpha1.ConditionStalled)
	return &workspacepods.Problem{
		Reason: c.Reason, Message: c.Message,
		Lasting: stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == c.Reason,
	}
}

func syncedVerdict(n intent) registry.Verdict {
	switch {
	case n.refused() != "":
		return registry.False(aggregationv1alpha1.ReasonChangeRefused, "Coder rejected the spec: "+n.refused())
	case n.waits():
		return registry.False(aggregationv1alpha1.ReasonChangeWaits, "a change of the spec is pending until the current build has finished")
	default:
		return registry.True(aggregationv1alpha1.ReasonSynced, "the spec is applied to Coder")
	}
}

func (s situation) ready(build, agents registry.Verdict) registry.Verdict {
	b := s.build
	synced := syncedVerdict(s.intent)
	switch {
	case s.object.DeletionTimestamp != nil:
		return registry.False(aggregationv1alpha1.ReasonDeleting, s.deletion())
	case s.intent.refused() != "":
		return registry.False(synced.Reason, synced.Message)
	case build.Status == metav1.ConditionTrue && s.intent.waits():
		return registry.False(synced.Reason, synced.Message)
	case build.Status != metav1.ConditionTrue && s.pods != nil:
		// The build waits for the pods, or failed because it waited in vain.
		return registry.False(s.pods.Reason, s.pods.Message+"; "+build.Message)
	case build.Status != metav1.ConditionTrue:
		return registry.False(build.Reason, build.Message)
	case b.Status == statusStopped && ptr.Deref(s.object.Spec.Dormant, false):
		return registry.True(aggregationv1alpha1.ReasonDormant, "the workspace is stopped and dormant; set spec.dormant to false before it can start")
	case b.Status == statusStopped:
		return registry.True(aggregationv1alpha1.ReasonStopped, "the workspace is stopped, as its spec requests")
	case s.pods != nil:
		return registry.False(s.pods.Reason, s.pods.Message)
	case agents.Status != metav1.ConditionTrue:
		return registry.False(agents.Reason, agents.Message)
	case unhealthyAgents(s.object.Status) != "":
		return registry.False(aggregationv1alpha1.ReasonAgentsUnhealthy, unhealthyAgents(s.object.Status))
	default:
		return registry.True(aggregationv1alpha1.ReasonRunning, "the workspace is running")
	}
}

// deletion returns a message with the progress of the deletion.
func (s situation) deletion() string {
	foreign := slices.DeleteFunc(slices.Clone(s.object.Finalizers), func(f string) bool { return f == aggregationv1alpha1.FinalizerWorkspace })
	v, failed := s.deletionFailed()
	message := "the workspace will be deleted in Coder"
	switch {
	case isDeleting(s.build):
		message = "the workspace is being deleted"
	case len(foreign) > 0:
		message = "the workspace will be deleted in Coder after these finalizers are removed: " + strings.Join(foreign, ", ")
	case failed:
		message = v.Message
	case isActive(s.build):
		message = fmt.Sprintf("the workspace will be deleted after its %s build has finished", s.build.Transition)
	}
	if s.build.UnmatchedTags != "" {
		message += ": " + buildVerdict(s.build).Message
	}
	return message
}

// deletionFailed returns the verdict of condition DeletionFailed, and reports whether it applies.
func (s situation) deletionFailed() (registry.Verdict, bool) {
	b, message := s.build, ""
	switch {
	case !s.recorded:
		return registry.Verdict{}, false
	case b.Transition == coderd.TransitionDelete && hasFailed(b):
		message = buildVerdict(b).Message
	case s.intent.Failed != nil:
		message = s.intent.Failed.Message
	default:
		return registry.Verdict{}, false
	}
	return registry.True(aggregationv1alpha1.ReasonDeletionFailed, message+"; the deletion is retried"), true
}

func (s situation) reconciling(ready, build, agents registry.Verdict) registry.Verdict {
	if s.stuck || s.podsLast(ready) && build.Status != metav1.ConditionFalse {
		return registry.False(ready.Reason, "nothing happens until a user acts")
	}
	if build.Status == metav1.ConditionUnknown || ready.Reason == aggregationv1alpha1.ReasonDeleting ||
		agents.Reason == aggregationv1alpha1.ReasonAgentsConnecting && s.pods == nil || s.intent.waits() {
		return registry.True(ready.Reason, ready.Message)
	}
	return registry.False(ready.Reason, "no build or change is in progress")
}

// podsLast reports whether the pods are the reason for which the workspace is not ready, and a user must
// act.
func (s situation) podsLast(ready registry.Verdict) bool {
	return s.pods != nil && s.pods.Lasting && ready.Reason == s.pods.Reason && podRemedies[ready.Reason] != ""
}

func (s situation) stalled(ready, build registry.Verdict) registry.Verdict {
	// The startup script of an agent does not run again before the next build.
	scriptFailed := slices.ContainsFunc(s.object.Status.Agents, func(a aggregationv1alpha1.WorkspaceAgent) bool {
		return a.LifecycleState == "start_error"
	})
	switch {
	case s.intent.refused() != "":
		return registry.True(aggregationv1alpha1.ReasonChangeRefused, ready.Message)
	case s.stuck:
		return registry.True(build.Reason, build.Message+"; connect a provisioner with these tags; or correct the tags in the template, update "+
			"the workspace and start it (kubectl coder start); or delete the workspace without a build (kubectl coder orphan)")
	case s.podsLast(ready), build.Status == metav1.ConditionFalse && !s.intent.waits() && s.pods != nil:
		message := ready.Message
		if remedy := podRemedies[ready.Reason]; remedy != "" {
			message += "; " + remedy
		}
		return registry.True(ready.Reason, message)
	case build.Status == metav1.ConditionFalse && !s.intent.waits():
		return registry.True(build.Reason, build.Message+"; "+buildRemedy(s.build))
	case ready.Reason == aggregationv1alpha1.ReasonAgentsUnhealthy && scriptFailed:
		return registry.True(ready.Reason, ready.Message)
	}
	return registry.False(ready.Reason, "no action needed")
}

// buildRemedy returns what to do about a build that did not succeed.
func buildRemedy(b coderd.Build) string {
	switch {
	case b.Status == statusCanceled:
		return fmt.Sprintf("request the %s again", b.Transition)
	case b.Transition == coderd.TransitionDelete:
		return "remove the cause; if the resources of the workspace no longer exist, delete it without a build (kubectl coder orphan)"
	default:
		return fmt.Sprintf("see the log of the build (kubectl coder logs), correct the template or the parameters, and request the %s again", b.Transition)
	}
}

// podRemedies maps the problems of pods that a user must solve to what to do. The others may resolve
// themselves: a cluster autoscaler adds a node for a pod that no node accepts, and a volume may still
// be attached to another node.
var podRemedies = map[string]string{
	aggregationv1alpha1.ReasonImagePullFailed:        "correct the image in the template, or give the pod pull secrets for the registry",
	aggregationv1alpha1.ReasonContainerConfigInvalid: "create the Secret, ConfigMap or key that is missing, or correct the template",
	aggregationv1alpha1.ReasonOutOfMemory:            "raise the memory limit in the template",
	aggregationv1alpha1.ReasonContainerCrashed:       "see its log with kubectl logs --previous, and correct the template",
	aggregationv1alpha1.ReasonPodEvicted:             "restart the workspace; if it happens again, raise the requests of the pod in the template",
	aggregationv1alpha1.ReasonPodGone:                "a Deployment in the template would replace it",
}
