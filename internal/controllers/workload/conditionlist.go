package workload

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// maxConditionMessage is the maximum length of a message in bytes. It is below the limit of
// metav1.Condition.
const maxConditionMessage = 4096

// ConditionTrue returns a condition with status True.
func ConditionTrue(conditionType, reason, message string) metav1.Condition {
	return newCondition(conditionType, metav1.ConditionTrue, reason, message)
}

// ConditionFalse returns a condition with status False.
func ConditionFalse(conditionType, reason, message string) metav1.Condition {
	return newCondition(conditionType, metav1.ConditionFalse, reason, message)
}

// ConditionUnknown returns a condition with status Unknown.
func ConditionUnknown(conditionType, reason, message string) metav1.Condition {
	return newCondition(conditionType, metav1.ConditionUnknown, reason, message)
}

func newCondition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: redaction.Truncate(message, maxConditionMessage)}
}

// Parts returns the conditions that are not nil.
func Parts(conditions ...*metav1.Condition) []metav1.Condition {
	var parts []metav1.Condition
	for _, c := range conditions {
		if c != nil {
			parts = append(parts, *c)
		}
	}
	return parts
}

// mergeConditions returns next for the given generation. A condition whose status did not change keeps the
// transition time from previous. Conditions that are not in next are dropped.
func mergeConditions(previous, next []metav1.Condition, generation int64, now metav1.Time) []metav1.Condition {
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

// changedConditions returns the conditions of next whose status or reason differs from previous.
func changedConditions(previous, next []metav1.Condition) []metav1.Condition {
	var changed []metav1.Condition
	for _, c := range next {
		if old := meta.FindStatusCondition(previous, c.Type); old == nil || old.Status != c.Status || old.Reason != c.Reason {
			changed = append(changed, c)
		}
	}
	return changed
}
