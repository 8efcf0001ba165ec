package diagnosis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// Unhealthy returns the conditions of an object that are not as they should be. A condition
// whose message an earlier one contains is left out. The version of Coder is no problem while Coder
// works, and otherwise the last one. Stalled is first, because its message says
// what to do, and then Ready. observed is the generation that the conditions are about.
func Unhealthy(kind string, object client.Object, observed int64, all []metav1.Condition) []Problem {
	problem := func(condition, reason, message, do string) Problem {
		return Problem{
			Namespace: object.GetNamespace(), Object: kind + "/" + object.GetName(),
			Condition: condition, Reason: reason, Message: shown(message), Do: do,
		}
	}
	if meta.FindStatusCondition(all, coderv1alpha1.ConditionReady) == nil {
		return []Problem{problem("", "", "the operator has not reconciled it yet",
			"check that the operator (coder-k8s) runs and holds its lease, and that it watches this namespace (--watch-namespaces)")}
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b metav1.Condition) int { return cmp.Compare(order(a.Type), order(b.Type)) })
	var found []Problem
	for _, c := range sorted {
		p := problem(c.Type, c.Reason, c.Message, "")
		if c.Type == coderv1alpha1.ConditionVersionSupported && isHealthy(all) {
			continue
		}
		if isUnhealthy(c) && !slices.ContainsFunc(found, func(other Problem) bool { return strings.Contains(other.Message, p.Message) }) {
			found = append(found, p)
		}
	}
	if deleted := object.GetDeletionTimestamp(); !deleted.IsZero() {
		found = append(found, problem("", coderv1alpha1.ReasonDeleting, "it has been in deletion since "+deleted.UTC().Format(time.RFC3339)+
			" and waits for the finalizers "+strings.Join(object.GetFinalizers(), ", "), "check which controllers must remove them, and whether the operator runs"))
	}
	if observed < object.GetGeneration() {
		found = append(found, problem("", "", "the operator has not reconciled the newest change of the spec yet",
			"try again in some seconds; if it does not change, check that the operator runs"))
	}
	return found
}

func order(kind string) int {
	if at := slices.Index([]string{coderv1alpha1.ConditionStalled, coderv1alpha1.ConditionReady, aggregationv1alpha1.ConditionDeletionFailed}, kind); at >= 0 {
		return at
	}
	if kind == coderv1alpha1.ConditionVersionSupported {
		return 4
	}
	return 3
}

// worthSaying are the reasons of conditions that are true, but about which a user must know.
var worthSaying = []string{
	coderv1alpha1.ReasonScaledToZero, coderv1alpha1.ReasonLicenseExpiring, coderv1alpha1.ReasonLicenseInGracePeriod,
	coderv1alpha1.ReasonDatabaseSecretMissing, coderv1alpha1.ReasonSecretMissing, coderv1alpha1.ReasonConfigMapMissing, aggregationv1alpha1.ReasonDormant,
}

// notExamined are the reasons of conditions that are unknown because the spec asks for no check.
var notExamined = []string{coderv1alpha1.ReasonDisabled, coderv1alpha1.ReasonNotChecked}

func isUnhealthy(c metav1.Condition) bool {
	switch c.Type {
	case coderv1alpha1.ConditionStalled, aggregationv1alpha1.ConditionDeletionFailed:
		return c.Status == metav1.ConditionTrue
	case coderv1alpha1.ConditionReconciling, aggregationv1alpha1.ConditionOutdated, aggregationv1alpha1.ConditionTruncated:
		return false
	case aggregationv1alpha1.ConditionAgentsConnected:
		return c.Status != metav1.ConditionTrue && c.Reason != aggregationv1alpha1.ReasonStopped
	}
	if c.Status == metav1.ConditionUnknown && c.Type != coderv1alpha1.ConditionReady && slices.Contains(notExamined, c.Reason) {
		return false
	}
	return c.Status != metav1.ConditionTrue || slices.Contains(worthSaying, c.Reason)
}

// isHealthy reports whether the conditions say that the object works and is in sync with Coder.
func isHealthy(all []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(all, coderv1alpha1.ConditionReady) && !meta.IsStatusConditionFalse(all, aggregationv1alpha1.ConditionSynced)
}

// state says whether an object with these conditions works.
func state(all []metav1.Condition) string {
	switch {
	case isHealthy(all):
		return "works"
	case meta.IsStatusConditionTrue(all, coderv1alpha1.ConditionStalled):
		return "does not work"
	default:
		return "is not ready"
	}
}

// readyMessage returns the message of condition Ready, or "".
func readyMessage(all []metav1.Condition) string {
	if c := meta.FindStatusCondition(all, coderv1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}
