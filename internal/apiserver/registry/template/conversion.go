package template

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/objectname"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/registry"
	"github.com/coder-k8s/coder-k8s/internal/apiserver/revision"
	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// fromCoder makes the object of a template.
func fromCoder(s snapshot) (*aggregationv1alpha1.CoderTemplate, error) {
	t, latest := s.template, s.latest()
	tmpl := &aggregationv1alpha1.CoderTemplate{
		ObjectMeta: metav1.ObjectMeta{
			Name: objectname.Template{
				Prefix: s.connection.NamePrefix, Organization: t.OrganizationName, Name: t.Name,
			}.String(),
			Namespace:         s.connection.ControlPlane.Namespace,
			UID:               types.UID(t.ID.String()),
			CreationTimestamp: registry.Seconds(t.CreatedAt),
			Generation:        1,
			Labels:            registry.Labels(s.connection.ControlPlane),
			ManagedFields:     registry.ManagedFields(),
		},
		Spec: aggregationv1alpha1.CoderTemplateSpec{
			Organization: t.OrganizationName,
			VersionID:    t.ActiveVersionID.String(),
			DisplayName:  t.DisplayName,
			Description:  t.Description,
			Icon:         t.Icon,
			Files:        s.source.files,
		},
		Status: aggregationv1alpha1.CoderTemplateStatus{
			ID:                  t.ID.String(),
			OrganizationName:    t.OrganizationName,
			ActiveVersionID:     t.ActiveVersionID.String(),
			ActiveVersionName:   s.active.Name,
			LatestVersionID:     latest.ID.String(),
			LatestVersionStatus: latest.Status,
			LatestVersionError:  latest.Error,
			Deprecated:          t.Deprecated,
			DeprecationMessage:  t.DeprecationMessage,
			UpdatedAt:           ptr.To(registry.Seconds(t.UpdatedAt)),
			Conditions:          conditionsOf(s),
		},
	}
	newest := t.UpdatedAt
	for _, at := range []time.Time{latest.UpdatedAt, s.shown.UpdatedAt} {
		if at.After(newest) {
			newest = at
		}
	}
	return tmpl, revision.Set(tmpl, newest)
}

// verdict is what one condition says.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

// conditionsOf derives all conditions from the version whose source is shown.
// Their time is that of its build.
func conditionsOf(s snapshot) []metav1.Condition {
	build := buildVerdict(s.shown)
	ready, underWay := readyVerdict(s, build)
	reconciling := verdict{metav1.ConditionFalse, ready.reason, "nothing is under way"}
	if underWay {
		reconciling = verdict{metav1.ConditionTrue, ready.reason, ready.message}
	}
	stalled := verdict{metav1.ConditionFalse, ready.reason, "nothing waits for a person"}
	if build.status == metav1.ConditionFalse {
		stalled = verdict{metav1.ConditionTrue, build.reason, build.message}
	}
	at := registry.Seconds(s.shown.UpdatedAt)
	condition := func(kind string, v verdict) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: v.status, Reason: v.reason, Message: v.message,
			ObservedGeneration: 1, LastTransitionTime: at,
		}
	}
	out := []metav1.Condition{
		condition(aggregationv1alpha1.ConditionReady, ready),
		condition(aggregationv1alpha1.ConditionReconciling, reconciling),
		condition(aggregationv1alpha1.ConditionStalled, stalled),
		condition(aggregationv1alpha1.ConditionBuildSucceeded, build),
	}
	if s.source.problem != "" {
		out = append(out, condition(aggregationv1alpha1.ConditionFilesAvailable,
			verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonFilesUnreadable, s.source.problem}))
	}
	return out
}

func buildVerdict(v coderd.TemplateVersion) verdict {
	switch v.Status {
	case buildSucceeded:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonBuildSucceeded, fmt.Sprintf("version %q was built", v.Name)}
	case buildFailed:
		reason := v.Error
		if reason == "" {
			reason = "Coder gives no reason"
		}
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonBuildFailed, fmt.Sprintf("building version %q failed: %s", v.Name, reason)}
	case buildCanceled:
		return verdict{metav1.ConditionFalse, aggregationv1alpha1.ReasonBuildCanceled, fmt.Sprintf("building version %q was canceled", v.Name)}
	case buildPending:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildPending, fmt.Sprintf("version %q waits for a provisioner", v.Name)}
	default:
		return verdict{metav1.ConditionUnknown, aggregationv1alpha1.ReasonBuildRunning, fmt.Sprintf("version %q is being built", v.Name)}
	}
}

// readyVerdict says also whether something is under way.
func readyVerdict(s snapshot, build verdict) (ready verdict, underWay bool) {
	switch {
	case build.status == metav1.ConditionUnknown:
		return verdict{metav1.ConditionFalse, build.reason, build.message}, true
	case build.status == metav1.ConditionFalse && s.shown.ID != s.active.ID:
		return verdict{metav1.ConditionFalse, build.reason,
			fmt.Sprintf("%s; version %q stays active", build.message, s.active.Name)}, false
	case build.status == metav1.ConditionFalse:
		return verdict{metav1.ConditionFalse, build.reason, build.message}, false
	case s.shown.ID != s.active.ID:
		return verdict{metav1.ConditionFalse, build.reason, build.message + " and becomes active in a moment"}, true
	default:
		return verdict{metav1.ConditionTrue, aggregationv1alpha1.ReasonActive, fmt.Sprintf("version %q is active", s.active.Name)}, false
	}
}
