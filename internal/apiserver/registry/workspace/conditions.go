package workspace

import (
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
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/workspacepods"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// verdict holds the status, reason and message of a condition.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// situation holds the inputs from which the conditions are derived.
type situation struct {
	// object is complete except for the conditions.
	object object
	build  coderd.Build
	notes  notes
	// pods is the problem of the pods, or nil.
	pods *workspacepods.Problem
	// recorded is true if the deletion was requested through this API. Such a deletion is retried
	// until the workspace is gone.
	recorded bool
}

// situationOf returns the situation of an object. UpdatedAt is the time of the last change of its
// newest build, or zero if unknown.
func situationOf(ws object, record *metadata.Record, n notes, updatedAt time.Time) situation {
	s := situation{object: ws, notes: n, recorded: record != nil && record.DeletionTimestamp != nil}
	if b := ws.Status.LatestBuild; b != nil {
		s.build = coderd.Build{
			Number: b.Number, Transition: coderd.Transition(b.Transition), Status: b.Status, Error: b.Error, UpdatedAt: updatedAt,
		}
	}
	return s
}

// conditions returns all conditions of a workspace.
func (k *Kind) conditions(s situation, previous object) []metav1.Condition {
	s.pods = k.podProblem(s, previous)
	build, agents := buildVerdict(s.build), agentsVerdict(s.object.Status)
	ready := s.ready(build, agents)
	out := []metav1.Condition{
		newCondition(aggregationv1alpha1.ConditionReady, ready),
		newCondition(aggregationv1alpha1.ConditionReconciling, s.reconciling(ready, build, agents)),
		newCondition(aggregationv1alpha1.ConditionStalled, s.stalled(ready, build)),
		newCondition(aggregationv1alpha1.ConditionSynced, syncedVerdict(s.notes)),
		newCondition(aggregationv1alpha1.ConditionBuildSucceeded, build),
		newCondition(aggregationv1alpha1.ConditionAgentsConnected, agents),
		newCondition(aggregationv1alpha1.ConditionOutdated, outdatedVerdict(s.object.Status)),
	}
	if s.pods != nil {
		out = append(out, newCondition(aggregationv1alpha1.ConditionPodsHealthy, s.podsVerdict()))
	}
	if v, failed := s.deletionFailed(); failed {
		out = append(out, newCondition(aggregationv1alpha1.ConditionDeletionFailed, v))
	}
	for i := range out {
		out[i].ObservedGeneration = s.object.Status.ObservedGeneration
		out[i].LastTransitionTime = k.changedAt(out[i], s.build, previous)
	}
	return out
}

func newCondition(kind string, v verdict) metav1.Condition {
	return metav1.Condition{Type: kind, Status: v.status, Reason: v.reason, Message: redaction.Truncate(v.message, registry.MaxMessage)}
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

func buildVerdict(b coderd.Build) verdict {
	switch b.Status {
	case statusPending:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildPending, fmt.Sprintf("the %s build waits for a provisioner", b.Transition)}
	case statusStarting, statusStopping, statusDeleting, statusCanceling:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildRunning, fmt.Sprintf("the %s build is in progress", b.Transition)}
	case statusFailed:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonBuildFailed, fmt.Sprintf("the %s build failed: %s", b.Transition, orUnknown(b.Error))}
	case statusCanceled:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonBuildCanceled, fmt.Sprintf("the %s build was canceled", b.Transition)}
	case statusRunning, statusStopped, statusDeleted:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonBuildSucceeded, fmt.Sprintf("the %s build succeeded", b.Transition)}
	default:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildRunning, fmt.Sprintf("the status of the %s build is %q", b.Transition, b.Status)}
	}
}

func agentsVerdict(status aggregationv1alpha1.CoderWorkspaceStatus) verdict {
	if status.LatestBuildStatus != statusRunning {
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonStopped, "the workspace is not running"}
	}
	if len(status.Agents) == 0 {
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonNoAgents, "the workspace has no agents"}
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
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonAgentsUnavailable, strings.Join(lost, ", ")}
	case len(connecting) > 0:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonAgentsConnecting, "agents that have not connected yet: " + strings.Join(connecting, ", ")}
	default:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonAgentsConnected, "all agents are connected"}
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

// scriptFailed reports whether the startup script of an agent failed. The script does not run again
// before the next build.
func scriptFailed(a aggregationv1alpha1.WorkspaceAgent) bool {
	return a.LifecycleState == "start_error"
}

// podProblem returns the problem of the pods of a workspace that is starting or running, or nil.
func (k *Kind) podProblem(s situation, previous object) *workspacepods.Problem {
	if k.pods == nil || s.build.Transition != coderd.TransitionStart || s.object.DeletionTimestamp != nil {
		return nil
	}
	id, err := uuid.Parse(string(s.object.UID))
	if err != nil {
		return nil
	}
	builtAt := time.Time{}
	if s.build.Status == statusRunning {
		builtAt = s.build.UpdatedAt
	}
	return k.pods.Problem(registry.ControlPlaneOf(s.object), id, builtAt, shownProblem(s, previous))
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
	return &workspacepods.Problem{Reason: c.Reason, Message: c.Message}
}

func (s situation) podsVerdict() verdict {
	return verdict{metav1.ConditionFalse, s.pods.Reason, s.pods.Message}
}

func outdatedVerdict(status aggregationv1alpha1.CoderWorkspaceStatus) verdict {
	if status.Outdated {
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonOutdated, "the template has a newer active version"}
	}
	return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonUpToDate, "the workspace has the active version of its template"}
}

func syncedVerdict(n notes) verdict {
	switch {
	case n.refused() != "":
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonChangeRefused, "Coder rejected the spec: " + n.refused()}
	case n.waits():
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonChangeWaits, "a change of the spec is pending until the current build has finished"}
	default:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonSynced, "the spec is applied to Coder"}
	}
}

func (s situation) ready(build, agents verdict) verdict {
	b := s.build
	synced := syncedVerdict(s.notes)
	switch {
	case s.object.DeletionTimestamp != nil:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonDeleting, s.deletion()}
	case s.notes.refused() != "":
		return verdict{metav1.ConditionFalse, synced.reason, synced.message}
	case build.status == metav1.ConditionTrue && s.notes.waits():
		return verdict{metav1.ConditionFalse, synced.reason, synced.message}
	case build.status != metav1.ConditionTrue:
		return verdict{metav1.ConditionFalse, build.reason, build.message}
	case b.Status == statusStopped && ptr.Deref(s.object.Spec.Dormant, false):
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonDormant, "the workspace is stopped and dormant; set spec.dormant to false before it can start"}
	case b.Status == statusStopped:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonStopped, "the workspace is stopped, as its spec requests"}
	case s.pods != nil:
		return s.podsVerdict()
	case agents.status != metav1.ConditionTrue:
		return verdict{metav1.ConditionFalse, agents.reason, agents.message}
	case unhealthyAgents(s.object.Status) != "":
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonAgentsUnhealthy, unhealthyAgents(s.object.Status)}
	default:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonRunning, "the workspace is running"}
	}
}

// deletion returns a message with the progress of the deletion.
func (s situation) deletion() string {
	foreign := slices.DeleteFunc(slices.Clone(s.object.Finalizers), func(f string) bool { return f == aggregationv1alpha1.FinalizerWorkspace })
	v, failed := s.deletionFailed()
	switch {
	case isDeleting(s.build):
		return "the workspace is being deleted"
	case len(foreign) > 0:
		return "the workspace will be deleted in Coder after these finalizers are removed: " + strings.Join(foreign, ", ")
	case failed:
		return v.message
	case isActive(s.build):
		return fmt.Sprintf("the workspace will be deleted after its %s build has finished", s.build.Transition)
	default:
		return "the workspace will be deleted in Coder"
	}
}

// deletionFailed returns the verdict of condition DeletionFailed, and reports whether it applies.
func (s situation) deletionFailed() (verdict, bool) {
	b, message := s.build, ""
	switch {
	case !s.recorded:
		return verdict{}, false
	case b.Transition == coderd.TransitionDelete && hasFailed(b):
		message = buildVerdict(b).message
	case s.notes.Failed != nil:
		message = s.notes.Failed.Message
	default:
		return verdict{}, false
	}
	return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonDeletionFailed, message + "; the deletion is retried"}, true
}

func (s situation) reconciling(ready, build, agents verdict) verdict {
	if build.status == metav1.ConditionUnknown || ready.reason == aggregationv1alpha1.ReasonDeleting ||
		agents.reason == aggregationv1alpha1.ReasonAgentsConnecting && s.pods == nil || s.notes.waits() {
		return verdict{metav1.ConditionTrue, ready.reason, ready.message}
	}
	return verdict{metav1.ConditionFalse, ready.reason, "no build or change is in progress"}
}

func (s situation) stalled(ready, build verdict) verdict {
	switch {
	case s.notes.refused() != "":
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonChangeRefused, ready.message}
	case build.status == metav1.ConditionFalse && !s.notes.waits():
		return verdict{metav1.ConditionTrue, build.reason, build.message}
	case ready.reason == aggregationv1alpha1.ReasonAgentsUnhealthy && slices.ContainsFunc(s.object.Status.Agents, scriptFailed):
		return verdict{metav1.ConditionTrue, ready.reason, ready.message}
	}
	return verdict{metav1.ConditionFalse, ready.reason, "no action needed"}
}

func orUnknown(message string) string {
	if message == "" {
		return "Coder reported no reason"
	}
	return message
}

// isUnreachable reports whether condition Synced has the reason CoderUnreachable.
func isUnreachable(c *metav1.Condition) bool {
	return c.Reason == aggregationv1alpha1.ReasonCoderUnreachable
}

// WithSync implements mirror.Kind.
func (k *Kind) WithSync(previous records.Object, reachable bool, since time.Time, message string) records.Object {
	ws, ok := previous.(object)
	if !ok || ws == nil {
		return nil
	}
	c := meta.FindStatusCondition(ws.Status.Conditions, aggregationv1alpha1.ConditionSynced)
	if reachable == (c == nil || !isUnreachable(c)) {
		return nil
	}
	v := verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonCoderUnreachable, "Coder is not available, so this is the last known state: " + orUnknown(message)}
	if reachable {
		record, _ := k.Records.Get(registry.ControlPlaneOf(ws), ws.UID)
		// An unreadable record is reported by Object.
		n, _ := notesOf(record)
		v = syncedVerdict(n)
	}
	now := newCondition(aggregationv1alpha1.ConditionSynced, v)
	now.ObservedGeneration = ws.Status.ObservedGeneration
	// The transition time changes only with the status.
	now.LastTransitionTime = registry.Seconds(since)
	out := ws.DeepCopy()
	meta.SetStatusCondition(&out.Status.Conditions, now)
	return out
}
