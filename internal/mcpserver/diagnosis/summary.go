package diagnosis

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	mostFindings = 10
	mostNext     = 5
)

// writing is the input for the first part of a report.
type writing struct {
	// subject names the diagnosed object.
	subject     string
	conclusions []conclusion
	conditions  []metav1.Condition
	pods        []corev1.Pod
	events      []corev1.Event
	gaps        []gap
}

// report returns a report with its summary, its findings and the next calls.
func (w writing) report() *Report {
	r := &Report{
		Findings: []Finding{}, Healthy: w.healthy(),
		Conditions: describeConditions(w.conditions), Pods: describePods(w.pods), Events: describeEvents(w.events),
	}
	for _, c := range w.conclusions[:min(len(w.conclusions), mostFindings)] {
		r.Findings = append(r.Findings, c.Finding)
	}
	r.Truncated = len(w.conclusions) > mostFindings
	r.Summary = strings.Join(slices.DeleteFunc([]string{w.verdict(), w.blindness()}, func(s string) bool { return s == "" }), " ")
	for _, g := range w.gaps {
		r.Gaps = append(r.Gaps, g.sentence)
	}
	r.NextTools = w.next()
	return r
}

func (r *Report) addLog(where, text string) {
	if text != "" {
		r.Logs = append(r.Logs, Log{Where: where, Text: shownLog(text)})
	}
}

func (r *Report) addContainerLogs(logs []containerLog) {
	for _, l := range logs {
		r.Logs = append(r.Logs, Log{Where: fmt.Sprintf("Pod/%s, container %s", l.pod, l.container), Previous: l.previous, Text: shownLog(l.text)})
	}
}

// shownLog limits the size of a log for the report.
func shownLog(text string) string {
	const longest = 4 << 10
	return tail(strings.TrimSpace(text), longest)
}

func (w writing) healthy() bool {
	return isTrue(w.conditions, coderv1alpha1.ConditionReady) && !w.has(severityError)
}

func (w writing) has(severity string) bool {
	return slices.ContainsFunc(w.conclusions, func(c conclusion) bool { return c.Severity == severity })
}

// verdict returns a sentence with the most likely cause and what to do about it.
func (w writing) verdict() string {
	state := "works"
	switch {
	case w.has(severityError):
		state = "does not work as expected"
	case !w.healthy():
		state = "is not ready"
	}
	if len(w.conclusions) == 0 {
		return fmt.Sprintf("%s %s: %s.", w.subject, state, oneLine(findCondition(w.conditions, coderv1alpha1.ConditionReady).Message, longestSentence))
	}
	first := w.conclusions[0]
	says := fmt.Sprintf("%s %s: %s: %s.", w.subject, state, first.Where, strings.TrimRight(first.What, "."))
	if w.healthy() {
		says = fmt.Sprintf("%s %s, but there is a finding: %s: %s.", w.subject, state, first.Where, strings.TrimRight(first.What, "."))
	}
	if first.Do != "" {
		says += fmt.Sprintf(" What to do: %s.", first.Do)
	}
	return says
}

// blindness returns a sentence that says that the cause may be in a gap. It returns "" if
// the cause was found without the missing data.
func (w writing) blindness() string {
	if len(w.gaps) == 0 || len(w.conclusions) > 0 && w.conclusions[0].Severity == severityError && !w.conclusions[0].symptom {
		return ""
	}
	what := strings.Join(missing(w.gaps), ", ")
	if w.healthy() {
		return fmt.Sprintf("Not everything could be read (%s): see gaps.", what)
	}
	return fmt.Sprintf("The cause may be in what could not be read (%s): see gaps, and try again with an account that has permission to read it.", what)
}

// next returns the calls that show or do more, without duplicates. Those for the most
// likely cause come first.
func (w writing) next() []Next {
	var all []Next
	for _, c := range w.conclusions {
		for _, n := range c.next {
			if !slices.ContainsFunc(all, func(o Next) bool { return reflect.DeepEqual(o, n) }) {
				all = append(all, n)
			}
		}
	}
	return all[:min(len(all), mostNext)]
}

const (
	// longestReport is the maximum size of a report as JSON, in bytes.
	longestReport = 16 << 10
	cutNotice     = "parts were left out to limit the size of the report; nextTools, get_events and get_pod_logs return the rest"
)

// fitted shortens a report until it is small enough. It first removes what other tools also
// return, and removes findings last.
func fitted(r *Report) *Report {
	if size(r) > longestReport {
		r.Truncated = true
	}
	for size(r) > longestReport && shorten(r) {
		continue
	}
	if r.Truncated {
		r.Gaps = append(r.Gaps, cutNotice)
	}
	return r
}

func size(r *Report) int {
	raw, err := json.Marshal(r)
	if err != nil {
		// A report contains only values that can be encoded as JSON.
		return 0
	}
	return len(raw) + len(cutNotice) + 16
}

// shorten removes one part and reports whether there was one to remove.
func shorten(r *Report) bool {
	const fewLines, fewEvents, fewPods, fewFindings = 8, 10, 5, 3
	switch {
	case halveLogs(r.Logs, fewLines):
	case len(r.Events) > fewEvents:
		r.Events = r.Events[:len(r.Events)/2]
	case len(r.Pods) > fewPods:
		r.Pods = r.Pods[:fewPods]
	case len(r.Logs) > 0:
		r.Logs = r.Logs[:len(r.Logs)-1]
	case len(r.Events) > 0:
		r.Events = r.Events[:len(r.Events)/2]
	case len(r.Findings) > fewFindings:
		r.Findings = r.Findings[:len(r.Findings)-1]
	case len(r.Pods) > 0:
		r.Pods = r.Pods[:len(r.Pods)-1]
	case len(r.Gaps) > 0:
		r.Gaps = r.Gaps[:len(r.Gaps)-1]
	case len(r.Conditions) > 0:
		r.Conditions = r.Conditions[:len(r.Conditions)-1]
	case len(r.Findings) > 1:
		r.Findings = r.Findings[:len(r.Findings)-1]
	default:
		return false
	}
	return true
}

// halveLogs removes the older half of the longest log.
func halveLogs(logs []Log, few int) bool {
	longest := -1
	for i := range logs {
		if strings.Count(logs[i].Text, "\n") > few && (longest < 0 || len(logs[i].Text) > len(logs[longest].Text)) {
			longest = i
		}
	}
	if longest < 0 {
		return false
	}
	lines := strings.SplitAfter(logs[longest].Text, "\n")
	logs[longest].Text = strings.Join(lines[len(lines)/2:], "")
	return true
}
