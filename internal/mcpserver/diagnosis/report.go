package diagnosis

// The severities of findings.
const (
	severityError   = "error"
	severityWarning = "warning"
	severityInfo    = "info"
)

// Finding is a problem, or a possible problem.
type Finding struct {
	// Severity is error, warning or info.
	Severity string `json:"severity"`
	// Where names the object as kind/name, and the container if there is one.
	Where string `json:"where"`
	// What describes the problem in one sentence.
	What string `json:"what"`
	// Evidence shows the problem: a condition, an event or lines of a log. It has at most
	// 600 bytes.
	Evidence string `json:"evidence,omitempty"`
	// Do describes what to do next.
	Do string `json:"do,omitempty"`
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

// Event is an Event about the diagnosed object or one of its pods.
type Event struct {
	// Time is the time of the last occurrence, in RFC 3339.
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
	Previous bool `json:"previous,omitempty"`
	// Text contains the last lines of the log.
	Text string `json:"text"`
}

// Build is the newest build of a workspace.
type Build struct {
	Number     int32  `json:"number"`
	Transition string `json:"transition"`
	Status     string `json:"status"`
	// Version is the name of the template version.
	Version string `json:"version,omitempty"`
	// Error is Terraform's error if the build log contains one, and Coder's error
	// otherwise.
	Error string `json:"error,omitempty"`
}

// Next is a tool call that shows or does more.
type Next struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// Report is the diagnosis of one object. It has at most 16 KiB as JSON.
type Report struct {
	// Summary is the result in a few sentences. The most likely cause comes first.
	Summary string `json:"summary"`
	// Healthy reports that the object is Ready and that there is no finding of severity
	// error.
	Healthy bool `json:"healthy"`
	// Findings are sorted by severity, and then from causes to effects.
	Findings []Finding `json:"findings"`
	// Conditions are the conditions of the object.
	Conditions []Condition `json:"conditions"`
	// Build is the newest build of a workspace.
	Build *Build `json:"build,omitempty"`
	// Pods are the pods of the object. Those that are not ready come first.
	Pods []Pod `json:"pods,omitempty"`
	// Events are the newest Events of the object and its pods, newest first.
	Events []Event `json:"events,omitempty"`
	// Logs are the ends of the logs of failing containers and failed builds.
	Logs []Log `json:"logs,omitempty"`
	// Gaps lists what could not be read, and why.
	Gaps []string `json:"gaps,omitempty"`
	// NextTools are the tool calls that show or do more.
	NextTools []Next `json:"nextTools,omitempty"`
	// Truncated reports that something was left out to limit the size of the report.
	Truncated bool `json:"truncated,omitempty"`
}
