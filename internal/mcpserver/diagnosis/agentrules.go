package diagnosis

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// agentFailure is a known failure of the script that downloads and starts the agent. signs
// matches its message in the log.
type agentFailure struct {
	signs    *regexp.Regexp
	what, do string
}

var agentFailures = []agentFailure{
	{regexp.MustCompile(`(?i)could not resolve host|no such host|bad address`), "the workspace cannot resolve the address of Coder",
		"give the control plane an access URL that resolves inside workspaces"},
	{regexp.MustCompile(`(?i)x509|certificate`), "the workspace does not trust the certificate of Coder",
		"have the image of the workspace trust it, or give Coder a certificate that it trusts"},
	{regexp.MustCompile(`(?i)failed to connect|connection refused|timed out|timeout|no route to host|network is unreachable`), "the workspace cannot reach Coder",
		"check that NetworkPolicies and firewalls allow workspaces to reach Coder's access URL"},
	{regexp.MustCompile(`(?i)\b401\b|unauthorized|agent token`), "Coder does not accept the agent's token",
		"restart the workspace, so that it gets the token of its newest build"},
	{regexp.MustCompile(`(?i)curl, wget|command not found|no such file`), "the image of the workspace lacks a program that the agent needs",
		"use an image with curl or wget and the shell that the template calls"},
}

// lostAgents reports agents of a running workspace that are not connected.
func lostAgents(f *workspaceFacts) []conclusion {
	c := f.condition(aggregationv1alpha1.ConditionAgentsConnected)
	severity := severityError
	switch c.Reason {
	case aggregationv1alpha1.ReasonAgentsUnavailable:
	case aggregationv1alpha1.ReasonAgentsConnecting:
		severity = severityWarning
	default:
		return nil
	}
	what, do := "the agent process does not run or cannot reach Coder",
		"check the pod or machine of the workspace: it must run the agent's script, and be able to reach "+f.accessURL()
	shown := proof(c)
	symptom := true
	if failure, line, found := f.agentWords(); found {
		what, do, shown, symptom = failure.what, failure.do, evidence(line), false
	}
	return []conclusion{{
		Finding: Finding{Severity: severity, Where: f.where(), What: oneLine(c.Message, longestSentence) + ": " + what, Evidence: shown, Do: do},
		symptom: symptom, next: f.showPods(),
	}}
}

func (f *workspaceFacts) accessURL() string {
	if f.controlPlane == nil || f.controlPlane.Status.AccessURL == "" {
		return "Coder's access URL"
	}
	return "Coder's access URL " + f.controlPlane.Status.AccessURL
}

// agentWords searches the logs of the workspace's pods for a known reason why the agent
// does not connect. The last matching line of a log is used.
func (f *workspaceFacts) agentWords() (failure agentFailure, line string, found bool) {
	for _, l := range f.logs {
		for _, line := range slices.Backward(strings.Split(l.text, "\n")) {
			for _, failure := range agentFailures {
				if failure.signs.MatchString(line) {
					return failure, line, true
				}
			}
		}
	}
	return agentFailure{}, "", false
}

func (f *workspaceFacts) showPods() []Next {
	var all []Next
	for _, s := range running(f.current) {
		all = append(all, showLog(s, false))
	}
	return append(all[:min(len(all), 1)], f.readBuild())
}

// failedStartup reports a startup script that failed or timed out.
func failedStartup(f *workspaceFacts) []conclusion {
	for _, agent := range f.object.Status.Agents {
		what := ""
		switch agent.LifecycleState {
		case startFailed:
			what = "the startup script of agent %s failed"
		case startTimedOut:
			what = "the startup script of agent %s did not finish in time"
		default:
			continue
		}
		severity := severityWarning
		if f.object.Status.Healthy != nil && !*f.object.Status.Healthy {
			severity = severityError
		}
		return one(Finding{
			Severity: severity, Where: f.where(), What: fmt.Sprintf(what, agent.Name),
			Evidence: cmp.Or(evidence(f.scriptLog), fmt.Sprintf("agent %s: status %s, lifecycle %s", agent.Name, cmp.Or(agent.Status, "unknown"), agent.LifecycleState)),
			Do:       "correct coder_script or startup_script in the template",
		}, f.readBuild().with("agent", agent.Name), f.callTemplate())
	}
	return nil
}

// The lifecycle states of an agent whose startup script did not succeed.
const (
	startFailed   = "start_error"
	startTimedOut = "start_timeout"
)

// failedAgent returns the name of the first agent whose startup script did not succeed.
func failedAgent(ws *aggregationv1alpha1.CoderWorkspace) (name string, found bool) {
	for _, agent := range ws.Status.Agents {
		if agent.LifecycleState == startFailed || agent.LifecycleState == startTimedOut {
			return agent.Name, true
		}
	}
	return "", false
}
