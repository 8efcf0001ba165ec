package diagnosis

import (
	"encoding/json"
	"strings"
)

const (
	// longestReport is how many bytes a report has as JSON.
	longestReport = 16 << 10
	cutNotice     = "something was left out so that the report stays small; nextTools, get_events and get_pod_logs tell the rest"
)

// fitted cuts a report until it is small enough: first what other tools tell as
// well, and the findings last.
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

// size is that of the report with the notice.
func size(r *Report) int {
	raw, err := json.Marshal(r)
	if err != nil {
		// It holds nothing that cannot be written as JSON.
		return 0
	}
	return len(raw) + len(cutNotice) + 16
}

// shorten takes one thing away, and says whether there was one.
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

// halveLogs takes the older half of the longest log.
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
