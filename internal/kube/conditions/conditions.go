package conditions

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// maxMessage is the maximum length of a message in bytes. It is below the limit of
// metav1.Condition.
const maxMessage = 4096

// True returns a condition with status True.
func True(conditionType, reason, message string) metav1.Condition {
	return condition(conditionType, metav1.ConditionTrue, reason, message)
}

// False returns a condition with status False.
func False(conditionType, reason, message string) metav1.Condition {
	return condition(conditionType, metav1.ConditionFalse, reason, message)
}

// Unknown returns a condition with status Unknown.
func Unknown(conditionType, reason, message string) metav1.Condition {
	return condition(conditionType, metav1.ConditionUnknown, reason, message)
}

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: redaction.Truncate(message, maxMessage)}
}

// Merge returns next for the given generation. A condition whose status did not change keeps the
// transition time from previous. Conditions that are not in next are dropped.
func Merge(previous, next []metav1.Condition, generation int64, now metav1.Time) []metav1.Condition {
	merged := make([]metav1.Condition, 0, len(next))
	for _, c := range next {
		c.ObservedGeneration = generation
		c.LastTransitionTime = now
		if old := meta.FindStatusCondition(previous, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		merged = append(merged, c)
	}
	return merged
}

// Changed returns the conditions of next whose status or reason differs from previous.
func Changed(previous, next []metav1.Condition) []metav1.Condition {
	var changed []metav1.Condition
	for _, c := range next {
		if old := meta.FindStatusCondition(previous, c.Type); old == nil || old.Status != c.Status || old.Reason != c.Reason {
			changed = append(changed, c)
		}
	}
	return changed
}
