package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// Report is the diagnosis of one object. It has at most 16 KiB as JSON.
type Report struct {
	// Summary says whether the object works, and describes the first problems.
	Summary string `json:"summary"`
	// Healthy reports that the object is Ready, in sync with Coder, and that its control plane exists.
	Healthy bool `json:"healthy"`
	// Problems are those of the object first, then those of its pods and of the objects that it
	// depends on.
	Problems []Problem `json:"problems"`
	// Build is the newest build of a workspace.
	Build *Build `json:"build,omitempty"`
	// Pods are the pods of the object. Those that are not ready come first.
	Pods []Pod `json:"pods,omitempty"`
	// Events are the newest Warning Events about the object and its pods, newest first.
	Events []Event `json:"events,omitempty"`
	// Logs are the last lines of failing containers, and the errors of failed builds.
	Logs []Log `json:"logs,omitempty"`
	// Gaps name what could not be read, and why.
	Gaps []string `json:"gaps,omitempty"`
	// Truncated reports that something was left out to limit the size of the report.
	Truncated bool `json:"truncated,omitempty"`
}

// Problem is a condition that is not as it should be, or what keeps a pod from running.
type Problem struct {
	Namespace string `json:"namespace"`
	// Object is the kind and the name of the object, as kind/name.
	Object string `json:"object"`
	// Condition is the type of the condition. It is empty for a pod.
	Condition string `json:"condition,omitempty"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	// Do says what to do. It is empty if the message says it.
	Do string `json:"do,omitempty"`
}

// Pod is a pod in one line.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"`
	// Ready is the number of its containers that are ready: "1/2".
	Ready    string `json:"ready"`
	Restarts int32  `json:"restarts"`
	// State is the reason why it does not run, as Kubernetes reports it: ImagePullBackOff,
	// Unschedulable, Terminating.
	State string `json:"state,omitempty"`
}

// Event is an Event about an object. Time is that of the last occurrence.
type Event struct {
	Time    string `json:"time"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Message string `json:"message"`
	Count   int32  `json:"count"`
}

// Log is a part of a container log or of a build log.
type Log struct {
	// Where names the source: pod and container, or a build.
	Where string `json:"where"`
	// Previous reports that this is the log of the container before its last restart.
	Previous bool   `json:"previous,omitempty"`
	Text     string `json:"text"`
}

// Build is the newest build of a workspace.
type Build struct {
	Number     int32  `json:"number"`
	Transition string `json:"transition"`
	Status     string `json:"status"`
	Template   string `json:"template,omitempty"`
	Version    string `json:"version,omitempty"`
	Error      string `json:"error,omitempty"`
}

const (
	mostProblems = 12
	// mostSentences is the maximum number of problems in the summary.
	mostSentences = 4
	// longestReport is the maximum size of a report as JSON, in bytes.
	longestReport = 16 << 10
	// longestMessage and longestSentence limit external text, in bytes.
	longestMessage  = 700
	longestSentence = 400
)

// finish writes the summary and limits the size. subject names the object, state says whether it
// works, and ready is the message of its condition Ready.
func (r *Report) finish(subject, state, ready string, gaps []gap) *Report {
	says := []string{fmt.Sprintf("%s %s", subject, state)}
	if r.Healthy && ready != "" {
		says[0] += ": " + oneLine(ready, longestSentence)
	}
	for i, p := range r.Problems[:min(len(r.Problems), mostSentences)] {
		message := p.Message
		if p.Do != "" {
			message += "; what to do: " + p.Do
		}
		if i == 0 && !r.Healthy {
			says[0] += ": " + message
		} else {
			says = append(says, p.Object+": "+message)
		}
	}
	var unread []string
	for _, g := range gaps {
		r.Gaps = append(r.Gaps, g.sentence)
		if !slices.Contains(unread, g.resource) {
			unread = append(unread, g.resource)
		}
	}
	if len(unread) > 0 {
		says = append(says, fmt.Sprintf("Some causes may be in what could not be read (%s): see gaps, and try again with an account that may read it", strings.Join(unread, ", ")))
	}
	for i := range says {
		says[i] = strings.TrimRight(says[i], ".") + "."
	}
	r.Summary = strings.Join(says, " ")
	r.fit()
	return r
}

// fit shortens the report until it is small enough. It first removes what other tools also return.
func (r *Report) fit() {
	const fewEvents, fewPods = 5, 5
	if len(r.Problems) > mostProblems {
		r.Problems, r.Truncated = r.Problems[:mostProblems], true
	}
	for {
		// A report contains only values that can be encoded as JSON.
		raw, _ := toolset.JSON(r)
		if len(raw) <= longestReport {
			return
		}
		r.Truncated = true
		switch {
		case len(r.Events) > fewEvents:
			r.Events = r.Events[:len(r.Events)/2]
		case len(r.Pods) > fewPods:
			r.Pods = r.Pods[:fewPods]
		case len(r.Logs) > 1:
			r.Logs = r.Logs[:len(r.Logs)-1]
		case len(r.Problems) > mostSentences:
			r.Problems = r.Problems[:len(r.Problems)-1]
		case len(r.Events) > 0:
			r.Events = r.Events[:len(r.Events)-1]
		case len(r.Logs) > 0:
			r.Logs = nil
		case len(r.Gaps) > 0:
			r.Gaps = r.Gaps[:len(r.Gaps)-1]
		default:
			return
		}
	}
}

// oneLine returns the beginning of an external text as one line.
func oneLine(words string, most int) string {
	return redaction.Truncate(redaction.OneLine(toolset.CleanMessage(words)), most)
}

// shown is oneLine for the text of a problem.
func shown(words string) string { return oneLine(words, longestMessage) }

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
