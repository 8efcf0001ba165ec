package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// workspaceRules returns the rules, ordered from causes to effects.
func workspaceRules() []rule[*workspaceFacts] {
	return []rule[*workspaceFacts]{
		missingControlPlane, silentCoder, deletionOfWorkspace, refusedChange, missingTemplate, podsBehindBuild, brokenBuild, waitingBuild,
		workspacePods, reportedPods, lostAgents, failedStartup, dormancy, waitingChange, unfinishedBuild, workspaceNotReady,
		troubledBeside, brokenTemplate, deprecatedTemplate, stoppedWorkspace, outdated,
	}
}

func (f *workspaceFacts) where() string { return "CoderWorkspace/" + f.object.Name }

func (f *workspaceFacts) condition(kind string) metav1.Condition {
	return findCondition(f.object.Status.Conditions, kind)
}

func (f *workspaceFacts) call(tool string) Next {
	return about(tool, f.object.Namespace, f.object.Name)
}

func (f *workspaceFacts) start() Next { return f.call("set_workspace_running").with("running", true) }

func (f *workspaceFacts) readBuild() Next {
	return inNamespace("get_build_logs", f.object.Namespace).with("workspace", f.object.Name)
}

func (f *workspaceFacts) callControlPlane() Next {
	return about("diagnose_control_plane", f.object.Namespace, controlPlaneName(f.object))
}

func (f *workspaceFacts) callTemplate() Next {
	return about("get_template", f.object.Namespace, f.templateName())
}

// finding returns a finding about the workspace with a condition as evidence.
func (f *workspaceFacts) finding(severity string, c metav1.Condition, what, do string) Finding {
	return Finding{Severity: severity, Where: f.where(), What: what + ": " + oneLine(c.Message, longestSentence), Evidence: proof(c), Do: do}
}

func missingControlPlane(f *workspaceFacts) []conclusion {
	if !f.controlPlaneMissing {
		return nil
	}
	return one(Finding{
		Severity: severityError, Where: "CoderControlPlane/" + controlPlaneName(f.object), What: "the control plane of the workspace no longer exists",
		Do: "create the control plane again with the same name and database, or ignore the object of the workspace",
	}, inNamespace("list_control_planes", f.object.Namespace))
}

// silentCoder reports that Coder does not respond or the workspace cannot be read, so that the workspace's state is stale.
func silentCoder(f *workspaceFacts) []conclusion {
	c := f.condition(aggregationv1alpha1.ConditionSynced)
	switch c.Reason {
	case aggregationv1alpha1.ReasonCoderUnreachable:
	case aggregationv1alpha1.ReasonReadFailed:
		return one(f.finding(severityError, c, "the operator cannot read the workspace, so it is in its last known state",
			"remove the cause that the message names; the operator tries again by itself"))
	default:
		return nil
	}
	all := one(f.finding(severityError, c, "Coder is not available, so the workspace is in its last known state",
		"check why its control plane does not respond (diagnose_control_plane)"), f.callControlPlane())
	troubled := troubledControlPlane(f.controlPlane)
	all[0].symptom = len(troubled) > 0
	return append(all, troubled...)
}

// troubledControlPlane returns a conclusion if the control plane is known and does not work.
func troubledControlPlane(cp *coderv1alpha1.CoderControlPlane) []conclusion {
	if cp == nil {
		return nil
	}
	c := findCondition(cp.Status.Conditions, coderv1alpha1.ConditionReady)
	if c.Status == metav1.ConditionTrue && c.Reason != coderv1alpha1.ReasonScaledToZero {
		return nil
	}
	return one(Finding{
		Severity: severityError, Where: "CoderControlPlane/" + cp.Name,
		What:     "the control plane has a problem: " + cmp.Or(oneLine(c.Message, longestSentence), "the operator has not reconciled it yet"),
		Evidence: proof(c), Do: "diagnose it with diagnose_control_plane, and fix it first",
	}, about("diagnose_control_plane", cp.Namespace, cp.Name))
}

// troubledBeside reports a control plane that is not ready although its Coder responds.
func troubledBeside(f *workspaceFacts) []conclusion {
	if f.condition(aggregationv1alpha1.ConditionSynced).Reason == aggregationv1alpha1.ReasonCoderUnreachable {
		return nil
	}
	troubled := troubledControlPlane(f.controlPlane)
	for i := range troubled {
		troubled[i].Severity = severityWarning
	}
	return troubled
}

func deletionOfWorkspace(f *workspaceFacts) []conclusion {
	failed := f.condition(aggregationv1alpha1.ConditionDeletionFailed)
	switch {
	case failed.Status == metav1.ConditionTrue:
		_, shown, do := failedBuild(f.build().Error, f.buildLog)
		found := f.finding(severityError, failed, "its deletion failed and is retried", do+"; if its resources no longer exist, delete it with delete_workspace and orphan=true")
		if shown != "" && f.buildLog != "" {
			found.Evidence = shown
		}
		return one(found, f.readBuild())
	case f.object.DeletionTimestamp.IsZero(), f.build().UnmatchedTags != "":
		// waitingBuild reports a build that no provisioner takes.
		return nil
	}
	return one(f.finding(severityWarning, f.condition(aggregationv1alpha1.ConditionReady), "it has been in deletion since "+
		f.object.DeletionTimestamp.UTC().Format(time.RFC3339), "wait; if finalizers are listed, check which controllers must remove them"), f.call("get_workspace"))
}

func refusedChange(f *workspaceFacts) []conclusion {
	c := f.condition(aggregationv1alpha1.ConditionSynced)
	if c.Reason != aggregationv1alpha1.ReasonChangeRefused {
		return nil
	}
	return one(f.finding(severityError, c, "Coder rejects the spec", "correct the field that the message names with update_workspace; get_template shows the parameters"),
		f.callTemplate(), f.call("update_workspace"))
}

func (f *workspaceFacts) buildFailed() bool {
	return f.build().Status == buildFailed && f.condition(aggregationv1alpha1.ConditionDeletionFailed).Status == ""
}

// podsBehindBuild reports problems of the pods for which a failed build waited.
func podsBehindBuild(f *workspaceFacts) []conclusion {
	if f.buildFailed() && (waitsForPods.MatchString(f.build().Error+"\n"+f.buildLog) ||
		f.condition(aggregationv1alpha1.ConditionPodsHealthy).Status == metav1.ConditionFalse) {
		return f.podTroubles()
	}
	return nil
}

// workspacePods reports problems of the pods if no build waited for them.
func workspacePods(f *workspaceFacts) []conclusion {
	if len(podsBehindBuild(f)) > 0 {
		return nil
	}
	return f.podTroubles()
}

// reportedPods reports the workspace's condition about pods that the caller may not read.
func reportedPods(f *workspaceFacts) []conclusion {
	c := f.condition(aggregationv1alpha1.ConditionPodsHealthy)
	if c.Status != metav1.ConditionFalse || slices.ContainsFunc(f.podTroubles(), func(c conclusion) bool { return c.Severity == severityError }) {
		return nil
	}
	return one(f.finding(severityError, c, "its pods are not healthy", "correct "+f.remedy.process+", or what the message names, and restart the workspace"),
		f.callTemplate(), showEvents(f.object.Namespace, "Pod", ""))
}

func (f *workspaceFacts) podTroubles() []conclusion { return apply(f.podFacts, podRules()) }

func brokenBuild(f *workspaceFacts) []conclusion {
	b := f.build()
	c := f.condition(aggregationv1alpha1.ConditionBuildSucceeded)
	switch {
	case c.Reason == aggregationv1alpha1.ReasonBuildCanceled:
		return one(f.finding(severityError, c, fmt.Sprintf("build %d was canceled", b.Number), "start it again if it should run"), f.start())
	case !f.buildFailed():
		return nil
	}
	what, shown, do := failedBuild(b.Error, f.buildLog)
	found := Finding{
		Severity: severityError, Where: fmt.Sprintf("%s, build %d", f.where(), b.Number), Do: do, Evidence: shown,
		What: fmt.Sprintf("the %s build from template %s, version %s, failed: %s", b.Transition, f.templateName(), orUnknown(b.TemplateVersionName), what),
	}
	// Only the log contains Terraform's message, so without it the cause may be in the log.
	return []conclusion{{Finding: found, symptom: f.buildLog == "", next: []Next{f.readBuild(), f.callTemplate()}}}
}

func orUnknown(name string) string { return cmp.Or(name, "(unknown)") }

func dormancy(f *workspaceFacts) []conclusion {
	if !ptr.Deref(f.object.Spec.Dormant, false) {
		return nil
	}
	return one(Finding{
		Severity: severityWarning, Where: f.where(), What: "the workspace is dormant: it cannot start until dormant is false",
		Evidence: proof(f.condition(aggregationv1alpha1.ConditionReady)), Do: "set dormant to false with update_workspace, and then start it",
	}, f.call("update_workspace").with("dormant", false), f.start())
}

func waitingChange(f *workspaceFacts) []conclusion {
	c := f.condition(aggregationv1alpha1.ConditionSynced)
	if c.Reason != aggregationv1alpha1.ReasonChangeWaits {
		return nil
	}
	return one(f.finding(severityWarning, c, "a change is pending", "wait until the running build has finished"), f.readBuild())
}

func unfinishedBuild(f *workspaceFacts) []conclusion {
	b := f.build()
	if f.condition(aggregationv1alpha1.ConditionBuildSucceeded).Reason != aggregationv1alpha1.ReasonBuildRunning {
		return nil
	}
	return one(Finding{
		Severity: severityInfo, Where: fmt.Sprintf("%s, build %d", f.where(), b.Number),
		What:     fmt.Sprintf("the %s build is in progress since %s", b.Transition, since(b.CreatedAt)),
		Evidence: evidence(f.buildLog), Do: "wait until it has finished; its log shows the progress",
	}, f.readBuild())
}

func stoppedWorkspace(f *workspaceFacts) []conclusion {
	c := f.condition(aggregationv1alpha1.ConditionReady)
	if c.Reason != aggregationv1alpha1.ReasonStopped || c.Status != metav1.ConditionTrue {
		return nil
	}
	return one(f.finding(severityInfo, c, fmt.Sprintf("it is stopped (build %d, asked for by %s)", f.build().Number, orUnknown(f.build().Reason)),
		"start it with set_workspace_running"), f.start())
}

func outdated(f *workspaceFacts) []conclusion {
	if !f.object.Status.Outdated {
		return nil
	}
	return one(Finding{
		Severity: severityInfo, Where: f.where(),
		What:     fmt.Sprintf("its template has a newer active version than its own, %s", orUnknown(f.build().TemplateVersionName)),
		Evidence: proof(f.condition(aggregationv1alpha1.ConditionOutdated)), Do: "update it with update_workspace",
	}, f.call("update_workspace").with("versionID", "active"))
}

// workspaceNotReady reports that the workspace is not ready, if no other error was found.
func workspaceNotReady(f *workspaceFacts) []conclusion {
	c := f.condition(aggregationv1alpha1.ConditionReady)
	reported := c.Status == metav1.ConditionTrue || !f.object.DeletionTimestamp.IsZero() ||
		slices.Contains([]string{
			aggregationv1alpha1.ReasonBuildFailed, aggregationv1alpha1.ReasonBuildCanceled, aggregationv1alpha1.ReasonBuildPending,
			aggregationv1alpha1.ReasonNoProvisioner, aggregationv1alpha1.ReasonBuildRunning, aggregationv1alpha1.ReasonChangeRefused, aggregationv1alpha1.ReasonChangeWaits,
			aggregationv1alpha1.ReasonAgentsConnecting, aggregationv1alpha1.ReasonAgentsUnavailable,
			f.condition(aggregationv1alpha1.ConditionPodsHealthy).Reason,
		}, c.Reason)
	if reported {
		return nil
	}
	return aFallback(f.finding(severityError, c, "it is not ready", "see its conditions"), f.call("get_workspace"))
}
