package monitoring

import (
	"slices"
	"strings"
)

// Severity says how soon somebody has to look.
type Severity string

// The severities.
const (
	// Critical wakes somebody up: people cannot work, or soon will not.
	Critical Severity = "critical"
	// Warning is for the next working day.
	Warning Severity = "warning"
	// Info is for whoever looks at something else anyway.
	Info Severity = "info"
)

// AlertGroup is a group of rules that Prometheus evaluates together.
type AlertGroup struct {
	// Name is unique in the cluster. Title is what people read.
	Name, Title string
	Alerts      []Alert
}

// Alert is one rule.
type Alert struct {
	Name     string
	Severity Severity
	// Expr is the PromQL that has a result while something is wrong.
	Expr string
	// For is how long it has to be so, as Prometheus writes durations.
	For string
	// Summary is one line and Description the whole story, both with the labels and
	// the value of the result in Prometheus' own templates.
	Summary, Description string
	Runbook              Runbook
}

// Runbook is what a person reads who is called.
type Runbook struct {
	// Means says what does not work for whom.
	Means string
	// Look are commands and queries, one a line, that narrow the cause down.
	Look []string
	// Do says what helps, by cause.
	Do []string
}

// RunbookURL is where the runbook of the alert stands.
func (a Alert) RunbookURL() string {
	return "https://github.com/coder-k8s/coder-k8s/blob/main/docs/reference/alerts.md#" + strings.ToLower(a.Name)
}

// AlertGroups are all groups, in the order in which they are written.
func AlertGroups() []AlertGroup {
	return []AlertGroup{operatorAlerts(), objectAlerts(), coderAlerts(), aggregatedAPIAlerts(), mcpAlerts()}
}

// Alerts are the rules of all groups.
func Alerts() []Alert {
	var all []Alert
	for _, group := range AlertGroups() {
		all = slices.Concat(all, group.Alerts)
	}
	return all
}
