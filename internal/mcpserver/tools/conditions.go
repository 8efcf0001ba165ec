package tools

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// readiness returns the reason and the message of condition Ready.
func readiness(conditions []metav1.Condition) (reason, message string) {
	ready := meta.FindStatusCondition(conditions, coderv1alpha1.ConditionReady)
	if ready == nil {
		return "", ""
	}
	return ready.Reason, excerpt(ready.Message)
}

// unreadyReason returns the reason of condition Ready, or "" if the condition is True or
// missing.
func unreadyReason(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, aggregationv1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return ""
	}
	return ready.Reason
}

// stalledMessage returns the message of condition Stalled if it is True, that is if a user
// must act, and "" otherwise.
func stalledMessage(conditions []metav1.Condition) string {
	stalled := meta.FindStatusCondition(conditions, aggregationv1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue {
		return ""
	}
	return excerpt(stalled.Message)
}

// progressMessage returns the message of condition Ready.
func progressMessage(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, aggregationv1alpha1.ConditionReady)
	if ready == nil {
		return "nothing is known yet"
	}
	return excerpt(ready.Message)
}

// statusCondition is a condition of a control plane. It has the same fields as in the
// previous implementation of this server.
type statusCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

func describeStatusConditions(conditions []metav1.Condition) []statusCondition {
	out := make([]statusCondition, 0, len(conditions))
	for _, c := range conditions {
		out = append(out, statusCondition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: excerpt(c.Message),
			ObservedGeneration: c.ObservedGeneration, LastTransitionTime: timestampOf(&c.LastTransitionTime),
		})
	}
	return out
}

// servedCondition is a condition of a workspace or a template.
type servedCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Since   string `json:"since,omitempty"`
}

func describeServedConditions(conditions []metav1.Condition) []servedCondition {
	out := make([]servedCondition, 0, len(conditions))
	for _, c := range conditions {
		out = append(out, servedCondition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: excerpt(c.Message), Since: timestampOf(&c.LastTransitionTime),
		})
	}
	return out
}
