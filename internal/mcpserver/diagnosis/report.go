package diagnosis

// How bad a finding is.
const (
	severityError   = "error"
	severityWarning = "warning"
	severityInfo    = "info"
)

// Finding is one thing that is wrong, or looks wrong.
type Finding struct {
	// Severity is error, warning or info.
	Severity string `json:"severity"`
	// Where names the object: kind/name, with the container where there is one.
	Where string `json:"where"`
	// What is wrong, in one sentence.
	What string `json:"what"`
	// Evidence is what shows it: a condition, an event, lines of a log. It has at
	// most 600 bytes.
	Evidence string `json:"evidence,omitempty"`
	// Do is what to do next.
	Do string `json:"do,omitempty"`
}

// Condition is a condition of the examined object.
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
	// Ready says how many of its containers are ready: "1/2".
	Ready    string `json:"ready"`
	Restarts int32  `json:"restarts"`
	// State is why it is not ready, in the words of Kubernetes: ImagePullBackOff,
	// Unschedulable, Terminating.
	State string `json:"state,omitempty"`
}

// Event is an Event about the examined object or one of its pods.
type Event struct {
	// Time is when it was last seen, in RFC 3339.
	Time    string `json:"time"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Message string `json:"message"`
	Count   int32  `json:"count"`
}

// Log is the end of a log.
type Log struct {
	// Where names what wrote it: pod and container, or a build.
	Where string `json:"where"`
	// Previous says that it is that of the container before the last restart.
	Previous bool `json:"previous,omitempty"`
	// Text is its last lines.
	Text string `json:"text"`
}

// Build is the newest build of a workspace.
type Build struct {
	Number     int32  `json:"number"`
	Transition string `json:"transition"`
	Status     string `json:"status"`
	// Version is the name of the template version.
	Version string `json:"version,omitempty"`
	// Error is why it failed, in Coder's words, and the error of Terraform where its
	// log has one.
	Error string `json:"error,omitempty"`
}

// Next is a call of a tool that tells or does more.
type Next struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// Report is what is known about one object. It has at most 16 KiB as JSON.
type Report struct {
	// Summary is the answer in a few sentences, the most likely cause first.
	Summary string `json:"summary"`
	// Healthy says that the object says it is ready, and that nothing of severity
	// error was found.
	Healthy bool `json:"healthy"`
	// Findings are sorted by severity, and then by how likely they are the cause of
	// the others.
	Findings []Finding `json:"findings"`
	// Conditions are those of the object.
	Conditions []Condition `json:"conditions"`
	// Build is the newest build of a workspace.
	Build *Build `json:"build,omitempty"`
	// Pods are those of the object, those in trouble first.
	Pods []Pod `json:"pods,omitempty"`
	// Events are the newest ones of the object and its pods, the newest first.
	Events []Event `json:"events,omitempty"`
	// Logs are the ends of the logs of containers in trouble and of failed builds.
	Logs []Log `json:"logs,omitempty"`
	// Gaps are what could not be looked at, and why.
	Gaps []string `json:"gaps,omitempty"`
	// NextTools are the calls that tell or do more.
	NextTools []Next `json:"nextTools,omitempty"`
	// Truncated says that something was left out so that the report stays small.
	Truncated bool `json:"truncated,omitempty"`
}
