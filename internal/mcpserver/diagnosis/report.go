package diagnosis

import (
	"cmp"
	"slices"
	"strings"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/redaction"
)

// The severities of findings.
const (
	severityError   = "error"
	severityWarning = "warning"
	severityInfo    = "info"
)

// Finding is a problem, or a possible problem, and what to do next. Severity is error, warning
// or info.
type Finding struct {
	Severity string `json:"severity"`
	// Where names the object as kind/name, and the container if there is one.
	Where string `json:"where"`
	What  string `json:"what"`
	// Evidence shows the problem: a condition, an event or lines of a log, at most 600 bytes.
	Evidence string `json:"evidence,omitempty"`
	Do       string `json:"do,omitempty"`
}

// Condition is a condition of the diagnosed object.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Pod is a pod in one line.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"`
	// Ready is the number of its containers that are ready: "1/2".
	Ready    string `json:"ready"`
	Restarts int32  `json:"restarts"`
	// State is the reason why it is not ready, as Kubernetes reports it: ImagePullBackOff,
	// Unschedulable, Terminating.
	State string `json:"state,omitempty"`
}

// Event is an Event about the diagnosed object or one of its pods. Time is that of the last
// occurrence.
type Event struct {
	Time    string `json:"time"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Message string `json:"message"`
	Count   int32  `json:"count"`
}

// Log is the end of a container log or of a build log.
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
	Version    string `json:"version,omitempty"`
	// Error is Terraform's error if the build log contains one, and Coder's error
	// otherwise.
	Error string `json:"error,omitempty"`
}

// Next is a tool call that shows or does more.
type Next struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// about returns a call of a tool about an object.
func about(tool, namespace, name string) Next {
	return inNamespace(tool, namespace).with("name", name)
}

// inNamespace returns a call of a tool about the objects of a namespace.
func inNamespace(tool, namespace string) Next {
	return Next{Tool: tool, Arguments: map[string]any{"namespace": namespace}}
}

// with adds an argument to the call and returns the call.
func (n Next) with(argument string, value any) Next {
	n.Arguments[argument] = value
	return n
}

// checkHealth returns the call that shows whether the operator and the APIs respond.
func checkHealth() Next { return Next{Tool: "check_health", Arguments: map[string]any{}} }

// Report is the diagnosis of one object. It has at most 16 KiB as JSON.
type Report struct {
	// Summary is the result in a few sentences. The most likely cause comes first.
	Summary string `json:"summary"`
	// Healthy reports that the object is Ready and that there is no finding of severity
	// error.
	Healthy bool `json:"healthy"`
	// Findings are sorted by severity, and then from causes to effects.
	Findings   []Finding   `json:"findings"`
	Conditions []Condition `json:"conditions"`
	Build      *Build      `json:"build,omitempty"`
	// Pods are the pods of the object. Those that are not ready come first.
	Pods []Pod `json:"pods,omitempty"`
	// Events are the newest Events of the object and its pods, newest first.
	Events []Event `json:"events,omitempty"`
	// Logs are the ends of the logs of failing containers and failed builds.
	Logs      []Log    `json:"logs,omitempty"`
	Gaps      []string `json:"gaps,omitempty"`
	NextTools []Next   `json:"nextTools,omitempty"`
	// Truncated reports that something was left out to limit the size of the report.
	Truncated bool `json:"truncated,omitempty"`
}

// conclusion is a finding with the data that decides its place in the report.
type conclusion struct {
	Finding
	// symptom reports that the finding must have another cause, which may be in a gap.
	symptom bool
	// fallback reports that the finding is dropped if another error was found.
	fallback bool
	next     []Next
}

// rule derives conclusions from facts. It is a pure function: it has no side effects and
// does not read the clock.
type rule[F any] func(facts F) []conclusion

// ranked sorts the conclusions by severity. They are in the order of the rules, which are
// ordered from causes to effects, so within a severity an earlier finding explains later ones.
func ranked(all []conclusion) []conclusion {
	if slices.ContainsFunc(all, func(c conclusion) bool { return c.Severity == severityError && !c.fallback }) {
		all = slices.DeleteFunc(all, func(c conclusion) bool { return c.fallback })
	}
	slices.SortStableFunc(all, func(a, b conclusion) int {
		return cmp.Or(cmp.Compare(weight(a.Severity), weight(b.Severity)), cmp.Compare(rank(a.isSymptom()), rank(b.isSymptom())))
	})
	return all
}

// apply returns the conclusions of the rules, in the order of the rules.
func apply[F any](facts F, rules []rule[F]) []conclusion {
	var all []conclusion
	for _, look := range rules {
		all = append(all, look(facts)...)
	}
	return all
}

// isSymptom reports whether the conclusion is an error that another error explains.
func (c conclusion) isSymptom() bool { return c.symptom && c.Severity == severityError }

func weight(severity string) int {
	return slices.Index([]string{severityError, severityWarning, severityInfo}, severity)
}

func one(f Finding, next ...Next) []conclusion { return []conclusion{{Finding: f, next: next}} }

// aFallback returns a conclusion for the case that no other error was found.
func aFallback(f Finding, next ...Next) []conclusion {
	return []conclusion{{Finding: f, symptom: true, fallback: true, next: next}}
}

// aSymptom returns a conclusion that does not contain the cause.
func aSymptom(f Finding, next ...Next) []conclusion {
	return []conclusion{{Finding: f, symptom: true, next: next}}
}

// gap is something that could not be read.
type gap struct {
	resource string
	// sentence names the object and the reason.
	sentence string
}

// missing returns the resources of the gaps without duplicates.
func missing(gaps []gap) []string {
	var all []string
	for _, g := range gaps {
		if !slices.Contains(all, g.resource) {
			all = append(all, g.resource)
		}
	}
	return all
}

// Limits for external text in a report, in bytes.
const (
	longestEvidence = 600
	longestSentence = 300
	longestMessage  = 250
)

// oneLine returns the beginning of an external text as one line.
func oneLine(words string, most int) string {
	return redaction.Truncate(redaction.OneLine(toolset.CleanMessage(words)), most)
}

// evidence returns the end of an external text, in lines. The newest lines and the errors
// of a log are at its end.
func evidence(words string) string {
	return tail(strings.TrimSpace(toolset.CleanMessage(words)), longestEvidence)
}

// tail returns the end of a text that may be too long. If possible, it starts at the
// beginning of a line.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const more = redaction.Ellipsis
	s = s[len(s)-most+len(more):]
	if _, lines, found := strings.Cut(s, "\n"); found && strings.TrimSpace(lines) != "" {
		s = lines
	}
	return more + strings.ToValidUTF8(s, "")
}
