package template

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
)

// conditionsOf derives all conditions from the version whose source is shown. A condition whose
// status is unchanged keeps its transition time. If before is nil, the time is that of the build.
func conditionsOf(s *snapshot, observed int64, before []metav1.Condition, now time.Time) []metav1.Condition {
	build := buildVerdict(s)
	ready, underWay := readyVerdict(s, build)
	reconciling := registry.False(ready.Reason, "no build or change is in progress")
	if underWay {
		reconciling = registry.True(ready.Reason, ready.Message)
	}
	synced := registry.True(aggregationv1alpha1.ReasonSynced, "the spec is applied to Coder")
	switch {
	case s.refused() != "":
		synced = registry.False(aggregationv1alpha1.ReasonChangeRefused, "Coder rejected the new version: "+s.refused())
	case s.waits():
		synced = registry.False(aggregationv1alpha1.ReasonChangeWaits, "the new version is being created in Coder")
	}
	stalled := registry.False(ready.Reason, "no action needed")
	switch {
	case build.Status == metav1.ConditionFalse:
		stalled = registry.True(build.Reason, ready.Message+"; correct the template, and push it again")
	case ready.Reason == aggregationv1alpha1.ReasonTestsFailed:
		stalled = registry.True(ready.Reason, ready.Message+"; correct the template, and push it again, or delete the CoderTemplateTest to run it again")
	}
	if before == nil && !s.shown.UpdatedAt.IsZero() {
		now = s.shown.UpdatedAt
	}
	var out []metav1.Condition
	add := func(kind string, v registry.Verdict) {
		out = registry.AppendCondition(out, before, kind, v, observed, registry.Seconds(now))
	}
	add(aggregationv1alpha1.ConditionReady, ready)
	add(aggregationv1alpha1.ConditionReconciling, reconciling)
	add(aggregationv1alpha1.ConditionStalled, stalled)
	add(aggregationv1alpha1.ConditionSynced, synced)
	add(aggregationv1alpha1.ConditionBuildSucceeded, build)
	if s.source.problem != "" {
		add(aggregationv1alpha1.ConditionFilesAvailable, registry.False(s.source.reason, s.source.problem))
	}
	if s.versions.More {
		add(aggregationv1alpha1.ConditionVersionsTruncated, registry.True(aggregationv1alpha1.ReasonTooManyVersions,
			"the template has older versions without a CoderTemplateVersion; archived ones and their files are in Coder"))
	}
	return out
}

func buildVerdict(s *snapshot) registry.Verdict {
	v := s.shown
	switch {
	case s.refused() != "":
		return registry.False(aggregationv1alpha1.ReasonChangeRefused, "Coder rejected the new version: "+s.refused())
	case s.waits():
		return registry.Unknown(aggregationv1alpha1.ReasonChangeWaits, fmt.Sprintf("version %q is being created in Coder", v.Name))
	}
	switch v.Status {
	case buildSucceeded:
		return registry.True(aggregationv1alpha1.ReasonBuildSucceeded, fmt.Sprintf("version %q was built", v.Name))
	case buildFailed:
		return registry.False(aggregationv1alpha1.ReasonBuildFailed, fmt.Sprintf("building version %q failed: %s", v.Name, cmp.Or(v.Error, registry.NoReason)))
	case buildCanceled:
		return registry.False(aggregationv1alpha1.ReasonBuildCanceled, fmt.Sprintf("building version %q was canceled", v.Name))
	case buildPending:
		message := fmt.Sprintf("version %q waits for a provisioner", v.Name)
		switch {
		case v.MatchedProvisioners == 0:
			message += fmt.Sprintf(", and no provisioner has its tags %v", givenTags(v.ProvisionerTags))
		case v.AvailableProvisioners == 0:
			message += ", and no provisioner with its tags is online"
		}
		return registry.Unknown(aggregationv1alpha1.ReasonBuildPending, message)
	default:
		return registry.Unknown(aggregationv1alpha1.ReasonBuildRunning, fmt.Sprintf("version %q is being built", v.Name))
	}
}

// readyVerdict returns the verdict of condition Ready, and whether an operation is in progress.
func readyVerdict(s *snapshot, build registry.Verdict) (ready registry.Verdict, underWay bool) {
	active := s.page.active
	switch {
	case build.Status == metav1.ConditionUnknown:
		return registry.False(build.Reason, build.Message), true
	case build.Status == metav1.ConditionFalse && s.shown.ID != active.ID:
		return registry.False(build.Reason, fmt.Sprintf("%s; version %q stays active", build.Message, active.Name)), false
	case build.Status == metav1.ConditionFalse:
		return registry.False(build.Reason, build.Message), false
	case s.intent.tested(active.ID) && s.shown.ID != active.ID:
		return testsVerdict(s)
	case s.intent.Release.waits(active.ID) && s.shown.ID != active.ID:
		return registry.True(aggregationv1alpha1.ReasonAwaitingPromotion,
			fmt.Sprintf("version %q is active, and the candidate %q is built and waits until it is promoted", active.Name, s.shown.Name)), false
	case s.shown.ID != active.ID:
		return registry.False(build.Reason, build.Message+" and becomes active in a moment"), true
	default:
		return registry.True(aggregationv1alpha1.ReasonActive, fmt.Sprintf("version %q is active", active.Name)), false
	}
}
