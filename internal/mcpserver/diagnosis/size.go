package diagnosis

import (
	"encoding/json"
	"strings"
)

const (
	// longestReport is the maximum size of a report as JSON, in bytes.
	longestReport = 16 << 10
	cutNotice     = "something was left out so that the report stays small; nextTools, get_events and get_pod_logs tell the rest"
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

// size returns the size of the report with the notice.
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
