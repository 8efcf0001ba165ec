//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// operatorLogs are the logs of all pods of the operator.
func operatorLogs(t *testing.T) string {
	t.Helper()
	return kubectl(t, "-n", "coder-system", "logs", "-l", operatorLabel, "--tail=-1")
}

// auditLine is the operator's log line about each call of a tool.
type auditLine struct {
	Time                             time.Time `json:"ts"`
	Msg, Method, User, Tool, Outcome string
}

// auditLines are those about the tools that a robot called.
func auditLines(logs string, r robot) []auditLine {
	var lines []auditLine
	for text := range strings.Lines(logs) {
		var line auditLine
		if json.Unmarshal([]byte(text), &line) != nil || line.Msg != "Handled a call" || line.Method != "tools/call" {
			continue
		}
		if line.User == r.user() && line.Time.After(r.since) {
			lines = append(lines, line)
		}
	}
	return lines
}

// checkAudit compares the log with the calls of a robot: one line for each call,
// with an outcome, and its token nowhere. A line is written after the response.
func checkAudit(t *testing.T, r robot, did *deeds) {
	t.Helper()
	var logs string
	var written, outcomes map[string]int
	polltest.Eventually(t, "the calls of "+r.user()+" are in the log", func() error {
		logs, written, outcomes = operatorLogs(t), map[string]int{}, map[string]int{}
		for _, line := range auditLines(logs, r) {
			written[line.Tool]++
			outcomes[line.Outcome]++
		}
		for tool, requests := range did.requests {
			if written[tool] < requests {
				return fmt.Errorf("of %d calls of %s there are %d", requests, tool, written[tool])
			}
		}
		return nil
	})
	for tool, requests := range did.requests {
		if written[tool] != requests {
			t.Errorf("%s was called %d times by %s, and %d lines are in the log", tool, requests, r.user(), written[tool])
		}
	}
	if outcomes[""] > 0 || outcomes["ok"] == 0 || outcomes["error"] > 0 {
		t.Errorf("the calls of %s ended with %v", r.user(), outcomes)
	}
	t.Logf("the calls of %s in the log: %v", r.user(), outcomes)
	noTokenTold(t, logs, r.token)
}

// noTokenTold looks for tokens, and for their signatures alone.
func noTokenTold(t *testing.T, told string, tokens ...string) {
	t.Helper()
	for i, token := range tokens {
		signature := token[strings.LastIndex(token, ".")+1:]
		if len(signature) < 40 || strings.Contains(told, signature) {
			t.Errorf("token %d of %d is told, or has a signature of %d characters", i+1, len(tokens), len(signature))
		}
	}
}

// logDurations logs how long the calls of each tool took.
func (d *deeds) logDurations(t *testing.T) {
	t.Helper()
	var names []string
	for tool := range d.took {
		names = append(names, tool)
	}
	slices.Sort(names)
	for _, tool := range names {
		took := d.took[tool]
		slices.Sort(took)
		t.Logf("%-36s %2d calls, fastest %6d ms, slowest %6d ms", tool, len(took), took[0]/time.Millisecond, took[len(took)-1]/time.Millisecond)
	}
}
