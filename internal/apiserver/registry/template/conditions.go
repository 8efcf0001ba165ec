package template

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/records"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// verdict holds the status, reason and message of a condition.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// conditionsOf derives all conditions from the version whose source is shown. A condition whose
// status is unchanged keeps its transition time. If before is nil, the time is that of the build.
func conditionsOf(s *snapshot, observed int64, before []metav1.Condition, now time.Time) []metav1.Condition {
	build := buildVerdict(s)
	ready, underWay := readyVerdict(s, build)
	reconciling := verdict{metav1.ConditionFalse, ready.reason, "no build or change is in progress"}
	if underWay {
		reconciling = verdict{metav1.ConditionTrue, ready.reason, ready.message}
	}
	stalled := verdict{metav1.ConditionFalse, ready.reason, "no action needed"}
	if build.status == metav1.ConditionFalse {
		stalled = verdict{metav1.ConditionTrue, build.reason, build.message}
	}
	var out []metav1.Condition
	add := func(kind string, v verdict) {
		c := metav1.Condition{
			Type: kind, Status: v.status, Reason: v.reason, Message: redaction.Truncate(v.message, registry.MaxMessage),
			ObservedGeneration: observed, LastTransitionTime: registry.Seconds(now),
		}
		if old := meta.FindStatusCondition(before, kind); old != nil && old.Status == v.status {
			c.LastTransitionTime = old.LastTransitionTime
		} else if before == nil && !s.shown.UpdatedAt.IsZero() {
			c.LastTransitionTime = registry.Seconds(s.shown.UpdatedAt)
		}
		out = append(out, c)
	}
	add(aggregationv1alpha1.ConditionReady, ready)
	add(aggregationv1alpha1.ConditionReconciling, reconciling)
	add(aggregationv1alpha1.ConditionStalled, stalled)
	add(aggregationv1alpha1.ConditionSynced, syncedVerdict(s))
	add(aggregationv1alpha1.ConditionBuildSucceeded, build)
	if s.source.problem != "" {
		add(aggregationv1alpha1.ConditionFilesAvailable, verdict{metav1.ConditionFalse, s.source.reason, s.source.problem})
	}
	return out
}

func buildVerdict(s *snapshot) verdict {
	v := s.shown
	switch {
	case s.refused() != "":
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonChangeRefused, "Coder rejected the new version: " + s.refused()}
	case s.waits():
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonChangeWaits, fmt.Sprintf("version %q is being created in Coder", v.Name)}
	}
	switch v.Status {
	case buildSucceeded:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonBuildSucceeded, fmt.Sprintf("version %q was built", v.Name)}
	case buildFailed:
		reason := v.Error
		if reason == "" {
			reason = "Coder reported no reason"
		}
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonBuildFailed, fmt.Sprintf("building version %q failed: %s", v.Name, reason)}
	case buildCanceled:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonBuildCanceled, fmt.Sprintf("building version %q was canceled", v.Name)}
	case buildPending:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildPending, fmt.Sprintf("version %q waits for a provisioner%s", v.Name, provisioners(v))}
	default:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildRunning, fmt.Sprintf("version %q is being built", v.Name)}
	}
}

// provisioners returns why no provisioner builds the version, if Coder reported it.
func provisioners(v coderd.TemplateVersion) string {
	switch {
	case v.MatchedProvisioners == 0:
		return fmt.Sprintf(", and no provisioner has its tags %v", givenTags(v.ProvisionerTags))
	case v.AvailableProvisioners == 0:
		return ", and no provisioner with its tags is online"
	}
	return ""
}

// readyVerdict returns the verdict of condition Ready, and whether an operation is in progress.
func readyVerdict(s *snapshot, build verdict) (ready verdict, underWay bool) {
	active := s.page.active
	switch {
	case build.status == metav1.ConditionUnknown:
		return verdict{metav1.ConditionFalse, build.reason, build.message}, true
	case build.status == metav1.ConditionFalse && s.shown.ID != active.ID:
		return verdict{metav1.ConditionFalse, build.reason,
			fmt.Sprintf("%s; version %q stays active", build.message, active.Name)}, false
	case build.status == metav1.ConditionFalse:
		return verdict{metav1.ConditionFalse, build.reason, build.message}, false
	case s.shown.ID != active.ID:
		return verdict{metav1.ConditionFalse, build.reason, build.message + " and becomes active in a moment"}, true
	default:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonActive, fmt.Sprintf("version %q is active", active.Name)}, false
	}
}

func syncedVerdict(s *snapshot) verdict {
	switch {
	case s.refused() != "":
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonChangeRefused, "Coder rejected the new version: " + s.refused()}
	case s.waits():
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonChangeWaits, "the new version is being created in Coder"}
	}
	return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonSynced, "the spec is applied to Coder"}
}

// WithSync implements mirror.Kind.
func (k *Kind) WithSync(previous records.Object, reachable bool, since time.Time, message string) records.Object {
	old, ok := previous.(object)
	if !ok || old == nil {
		return nil
	}
	c := meta.FindStatusCondition(old.Status.Conditions, aggregationv1alpha1.ConditionSynced)
	wanted := verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonCoderUnreachable, message}
	if reachable {
		if c == nil || c.Reason != aggregationv1alpha1.ReasonCoderUnreachable {
			return nil
		}
		wanted = verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonSynced, "the spec is applied to Coder"}
	}
	if c != nil && c.Status == wanted.status && c.Reason == wanted.reason && c.Message == wanted.message {
		return nil
	}
	changed := old.DeepCopy()
	meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{
		Type: aggregationv1alpha1.ConditionSynced, Status: wanted.status, Reason: wanted.reason, Message: wanted.message,
		ObservedGeneration: old.Status.ObservedGeneration, LastTransitionTime: registry.Seconds(since),
	})
	return changed
}
