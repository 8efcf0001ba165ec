package diagnosis

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func isTrue(all []metav1.Condition, kind string) bool { return meta.IsStatusConditionTrue(all, kind) }

// findCondition returns the condition, or an empty one if there is none.
func findCondition(all []metav1.Condition, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(all, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind}
}

// proof formats a condition as evidence.
func proof(c metav1.Condition) string {
	return evidence("condition " + c.Type + "=" + string(c.Status) + ", " + c.Reason + ": " + c.Message)
}

func describeConditions(all []metav1.Condition) []Condition {
	described := make([]Condition, 0, len(all))
	for _, c := range all {
		described = append(described, Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: oneLine(c.Message, longestMessage)})
	}
	return described
}
