package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// occurrence is something that happened to an object.
type occurrence struct {
	reason, action, note string
	warning              bool
	// key distinguishes occurrences with the same reason.
	key string
}

// The actions of Events.
const (
	actionBuild   = "Build"
	actionConnect = "Connect"
	actionRun     = "Run"
	actionPromote = "Promote"
	actionTest    = "Test"
)

// scheduledBuilds maps the reasons of builds that Coder starts itself to their explanations.
var scheduledBuilds = map[string]string{
	"autostop": "its schedule or time limit", "dormancy": "inactivity", "autodelete": "its template's rule for dormant workspaces",
}

// workspaceOccurrences returns the occurrences between two states of a workspace.
func workspaceOccurrences(before, after *aggregationv1alpha1.CoderWorkspace) []occurrence {
	var all []occurrence
	a, b := before.Status.LatestBuild, after.Status.LatestBuild
	if b != nil && (a == nil || a.Number != b.Number || a.Status != b.Status) {
		number := fmt.Sprint(b.Number)
		why, bySchedule := scheduledBuilds[b.Reason]
		switch {
		case b.Status == "failed":
			all = append(all, occurrence{
				reason: aggregationv1alpha1.ReasonBuildFailed, action: actionBuild, warning: true, key: number,
				note: conditionOf(after.Status.Conditions, aggregationv1alpha1.ConditionBuildSucceeded).Message,
			})
		case b.Status == "stopped" && bySchedule:
			all = append(all, occurrence{
				reason: aggregationv1alpha1.ReasonStoppedBySchedule, action: actionBuild, key: number,
				note: fmt.Sprintf("Coder stopped the workspace because of %s (%s)", why, b.Reason),
			})
		}
	}
	was, is := conditionOf(before.Status.Conditions, aggregationv1alpha1.ConditionAgentsConnected), conditionOf(after.Status.Conditions, aggregationv1alpha1.ConditionAgentsConnected)
	switch {
	case is.Reason == aggregationv1alpha1.ReasonAgentsUnavailable && was.Reason != is.Reason:
		all = append(all, occurrence{reason: is.Reason, action: actionConnect, warning: true, key: transitionKey(is), note: is.Message})
	case is.Reason == aggregationv1alpha1.ReasonAgentsConnected && was.Reason == aggregationv1alpha1.ReasonAgentsUnavailable:
		all = append(all, occurrence{reason: is.Reason, action: actionConnect, key: transitionKey(is), note: "all agents are connected again"})
	}
	was, is = conditionOf(before.Status.Conditions, aggregationv1alpha1.ConditionPodsHealthy), conditionOf(after.Status.Conditions, aggregationv1alpha1.ConditionPodsHealthy)
	if is.Reason != "" && is.Reason != was.Reason {
		all = append(all, occurrence{reason: is.Reason, action: actionRun, warning: true, key: transitionKey(is), note: is.Message})
	}
	return all
}

// conditionOf returns a condition, or an empty one if it is missing.
func conditionOf(conditions []metav1.Condition, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func transitionKey(c metav1.Condition) string { return fmt.Sprint(c.LastTransitionTime.Unix()) }

// templateOccurrences returns the occurrences between two states of a template.
func templateOccurrences(before, after *aggregationv1alpha1.CoderTemplate) []occurrence {
	var all []occurrence
	was, is := before.Status, after.Status
	if is.LatestVersionStatus == "failed" && (was.LatestVersionID != is.LatestVersionID || was.LatestVersionStatus != is.LatestVersionStatus) {
		all = append(all, occurrence{
			reason: aggregationv1alpha1.ReasonBuildFailed, action: actionBuild, warning: true, key: is.LatestVersionID,
			note: fmt.Sprintf("building version %q failed: %s", is.LatestVersionName, is.LatestVersionError),
		})
	}
	// Ready stays false while a test that failed runs again, and Stalled does not stay true.
	failed := func(t *aggregationv1alpha1.CoderTemplate) *metav1.Condition {
		c := meta.FindStatusCondition(t.Status.Conditions, aggregationv1alpha1.ConditionStalled)
		if c == nil || c.Reason != aggregationv1alpha1.ReasonTestsFailed || t.Status.Candidate == nil {
			return nil
		}
		return c
	}
	if c := failed(after); c != nil && (failed(before) == nil || was.Candidate.ID != is.Candidate.ID) {
		all = append(all, occurrence{
			reason: c.Reason, action: actionTest, warning: true, key: is.Candidate.ID + transitionKey(*c), note: c.Message,
		})
	}
	if was.ActiveVersionID != "" && was.ActiveVersionID != is.ActiveVersionID {
		at := ""
		if is.UpdatedAt != nil {
			at = fmt.Sprint(is.UpdatedAt.Unix())
		}
		all = append(all, occurrence{
			reason: aggregationv1alpha1.ReasonVersionPromoted, action: actionPromote, key: is.ActiveVersionID + at,
			note: fmt.Sprintf("version %q is active; the former version was %q", is.ActiveVersionName, was.ActiveVersionName),
		})
	}
	return all
}
