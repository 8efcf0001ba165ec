package tools

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

const (
	defaultEvents = 50
	maxEvents     = 1000
	// maxEventsBytes limits the size of the answer.
	maxEventsBytes = 64 << 10
)

func addObservation(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "get_events", Title: "Events",
		Description: "Shows events, newest first, of the object with this name and kind.",
		Toolset:     toolset.Observation, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{{Verb: "list", Resource: "events"}},
	}, getEvents)
	toolset.Add(s, toolset.Definition{
		Name: "get_pod_logs", Title: "Pod log",
		Description: "Shows the newest lines of a container; previous: before its restart.",
		Toolset:     toolset.Observation, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{{Verb: "get", Resource: "pods/log"}},
		Uses:   []callers.Right{{Verb: "get", Resource: "pods"}},
	}, getPodLogs)
	toolset.Add(s, toolset.Definition{
		Name: "check_health", Title: "Health",
		Description: "Says who you are, which APIs answer and which objects are unhealthy.",
		Toolset:     toolset.Observation, Effect: toolset.Reads, Idempotent: true,
		Uses: []callers.Right{callers.CoderRight("list", controlPlanePlural), callers.CoderRight("list", provisionerPlural), callers.CoderRight("list", workspaceProxyPlural),
			callers.AggregatedRight("list", templatePlural), callers.AggregatedRight("list", workspacePlural), {Verb: "get", Resource: versionPath}, {Verb: "get", Resource: aggregatedPath}},
	}, checkHealth)
}

type getEventsInput struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name,omitempty" jsonschema:"object that the events are about; all if omitted"`
	Kind      string `json:"kind,omitempty" jsonschema:"its kind, like Pod or CoderControlPlane"`
	Type      string `json:"type,omitempty" jsonschema:"all if omitted" enum:"Normal,Warning"`
	Limit     int    `json:"limit,omitempty" default:"50" maximum:"1000"`
	Cursor    string `json:"cursor,omitempty"`
	// Continue is the name of the cursor argument in the previous implementation of this
	// server.
	Continue string `json:"continue,omitempty" deprecated:"true"`
}

type getEventsOutput struct {
	listOutput[event]
	// Continue equals NextCursor, for clients of the previous implementation.
	Continue string `json:"continue,omitempty"`
	Note     string `json:"note,omitempty"`
}

type event struct {
	Type           string `json:"type"`
	Reason         string `json:"reason"`
	Message        string `json:"message"`
	Count          int32  `json:"count"`
	LastTimestamp  string `json:"lastTimestamp,omitempty"`
	FirstTimestamp string `json:"firstTimestamp,omitempty"`
	Kind           string `json:"kind,omitempty"`
	Name           string `json:"name,omitempty"`
	Source         string `json:"source,omitempty"`
}

func getEvents(ctx context.Context, call *toolset.Call, in getEventsInput) (getEventsOutput, error) {
	if err := toolset.RequireNamespace(in.Namespace); err != nil {
		return getEventsOutput{}, err
	}
	in.Cursor = cmp.Or(in.Cursor, in.Continue)
	page, err := toolset.NewPageWithin(in.Limit, in.Cursor, defaultEvents, maxEvents)
	if err != nil {
		return getEventsOutput{}, err
	}
	options := page.Options(in.Namespace)
	selected := fields.Set{"involvedObject.name": in.Name, "type": in.Type}
	if in.Kind != "" {
		// A client may have written the kind in lower case, such as "replicaset".
		kind := strings.ToUpper(in.Kind[:1]) + in.Kind[1:]
		for known := range call.Kube.Scheme().AllKnownTypes() {
			if strings.EqualFold(known.Kind, in.Kind) {
				kind = known.Kind
				break
			}
		}
		selected["involvedObject.kind"] = kind
	}
	options.FieldSelector = selectorOf(selected)
	read, next, failed := toolset.ReadEvents(ctx, call.Kube, *options)
	if failed != nil {
		return getEventsOutput{}, failed
	}
	slices.SortFunc(read, podproblem.CompareEvents)
	shown, _ := toolset.Cut(page, read, next)
	if page, err = toolset.NewPageWithin(fittingEvents(shown), in.Cursor, defaultEvents, maxEvents); err != nil {
		return getEventsOutput{}, err
	}
	out := getEventsOutput{listOutput: onePage(page, read, next, describeEvent)}
	out.Continue = out.NextCursor
	if next != "" {
		out.Note = fmt.Sprintf("%d events were read, in the order of their names, so newer ones may be among the rest: give name, kind or type, or go on with continue", len(read))
	}
	return out, nil
}

// fittingEvents returns how many of the events fit into an answer, at least one.
func fittingEvents(events []corev1.Event) int {
	// frame is the approximate size of an event's JSON object without its texts.
	const frame = 250
	size := 0
	for i := range events {
		e := &events[i]
		size += frame + min(len(e.Message), maxExcerpt) + len(e.InvolvedObject.Name) + len(e.Reason)
		if size > maxEventsBytes {
			return max(i, 1)
		}
	}
	return len(events)
}

func describeEvent(e *corev1.Event) event {
	// Events of the events.k8s.io API set EventTime instead of FirstTimestamp.
	firstSeen := cmp.Or(e.FirstTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time)
	return event{
		Type: e.Type, Reason: messageExcerpt(e.Reason), Message: messageExcerpt(e.Message), Count: podproblem.EventCount(e),
		LastTimestamp: timestamp(podproblem.EventTime(e)), FirstTimestamp: timestamp(firstSeen),
		Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name,
		Source: cmp.Or(e.Source.Component, e.ReportingController),
	}
}

// defaultContainerAnnotation is the annotation in which a pod names its default container.
const defaultContainerAnnotation = "kubectl.kubernetes.io/default-container"

type getPodLogsInput struct {
	Namespace    string `json:"namespace"`
	Name         string `json:"name" jsonschema:"pod, as list_control_plane_pods shows it"`
	Container    string `json:"container,omitempty" jsonschema:"Coder's own if omitted"`
	TailLines    int    `json:"tailLines,omitempty" maximum:"5000"`
	LimitBytes   int    `json:"limitBytes,omitempty" jsonschema:"most bytes of log"`
	Previous     bool   `json:"previous,omitempty" jsonschema:"log of the container before its last restart"`
	SinceSeconds int64  `json:"sinceSeconds,omitempty" jsonschema:"only the last seconds"`
}

// getPodLogsOutput is the end of a container's log. Truncated reports that older lines were
// left out.
type getPodLogsOutput struct {
	Container string `json:"container,omitempty"`
	Logs      string `json:"logs"`
	Truncated bool   `json:"truncated"`
	Note      string `json:"note,omitempty"`
}

func getPodLogs(ctx context.Context, call *toolset.Call, in getPodLogsInput) (getPodLogsOutput, error) {
	container, err := chooseContainer(ctx, call.Kube, in)
	if err != nil {
		return getPodLogsOutput{}, err
	}
	lines, bytes := bounded(in.TailLines, defaultLogLines, maxLogLines), bounded(in.LimitBytes, defaultLogBytes, maxLogBytes)
	options := &corev1.PodLogOptions{
		Container: container, Previous: in.Previous,
		// One more line than is kept shows whether the log is longer.
		TailLines: ptr.To(int64(lines) + 1),
	}
	if in.SinceSeconds > 0 {
		options.SinceSeconds = &in.SinceSeconds
	}
	logs, cut, err := toolset.PodLog(in.Namespace, in.Name, options).Tail(ctx, call.Kube, lines, bytes)
	if err != nil {
		return getPodLogsOutput{}, err
	}
	out := getPodLogsOutput{Container: container, Logs: logs, Truncated: cut}
	if cut {
		out.Note = fmt.Sprintf("older lines are left out; give tailLines up to %d and limitBytes up to %d for more", maxLogLines, maxLogBytes)
	}
	return out, nil
}

func bounded(given, standard, most int) int {
	if given <= 0 {
		return standard
	}
	return min(given, most)
}

// chooseContainer returns the requested container, the only one, or the pod's default
// container. It returns "" if the caller may not read the pod; the API then chooses the
// container.
func chooseContainer(ctx context.Context, kube *callers.Kube, in getPodLogsInput) (string, error) {
	if in.Container != "" {
		return in.Container, nil
	}
	p, err := readObject(ctx, kube, "pods", in.Namespace, in.Name, &corev1.Pod{})
	switch {
	case apierrors.IsForbidden(err):
		return "", nil
	case err != nil:
		return "", err
	case len(p.Spec.Containers) == 1:
		return p.Spec.Containers[0].Name, nil
	}
	var names []string
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		names = append(names, c.Name)
	}
	for _, c := range p.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	if preferred := p.Annotations[defaultContainerAnnotation]; slices.Contains(names, preferred) {
		return preferred, nil
	}
	return "", toolset.UsageError(fmt.Sprintf("pod %s/%s has several containers; give container: one of %s", in.Namespace, in.Name, strings.Join(names, ", ")))
}

const (
	// Default size of a log excerpt, and its maximum.
	defaultLogLines = 200
	maxLogLines     = 5000
	defaultLogBytes = 64 << 10
	maxLogBytes     = 256 << 10

	workspaceLogResource = workspacePlural + "/log"
	templateLogResource  = templatePlural + "/log"
)

type getBuildLogsInput struct {
	Namespace string `json:"namespace"`
	Workspace string `json:"workspace,omitempty" jsonschema:"organization.owner.workspace; this or template"`
	Build     int32  `json:"build,omitempty" jsonschema:"number of a build of the workspace; the latest if omitted"`
	Agent     string `json:"agent,omitempty" jsonschema:"agent of the workspace: what its scripts wrote, like the startup script"`
	Template  string `json:"template,omitempty" jsonschema:"organization.template; this or workspace"`
	VersionID string `json:"versionID,omitempty" jsonschema:"id of a version of the template; the latest if omitted"`
	TailLines int    `json:"tailLines,omitempty" maximum:"5000"`
}

type getBuildLogsOutput struct {
	Build     loggedBuild `json:"build"`
	Logs      string      `json:"logs"`
	Truncated bool        `json:"truncated"`
	Message   string      `json:"message,omitempty"`
}

// loggedBuild is a build of a workspace, which has a number, or of a template version. For
// an older build of a workspace, the API returns only the log, so only Number is set.
type loggedBuild struct {
	Number     int32  `json:"number,omitempty"`
	Transition string `json:"transition,omitempty"`
	Version    string `json:"version,omitempty"`
	VersionID  string `json:"versionID,omitempty"`
	Status     string `json:"status,omitempty"`
	Error      string `json:"error,omitempty"`
}

func getBuildLogs(ctx context.Context, call *toolset.Call, in getBuildLogsInput) (getBuildLogsOutput, error) {
	switch {
	case (in.Workspace == "") == (in.Template == ""):
		return getBuildLogsOutput{}, toolset.UsageError("name either a workspace or a template")
	case in.Workspace != "" && in.VersionID != "":
		return getBuildLogsOutput{}, toolset.UsageError("versionID is for a template; the builds of a workspace have numbers: give build")
	case in.Agent != "" && (in.Template != "" || in.Build != 0):
		return getBuildLogsOutput{}, toolset.UsageError("agent is for the newest build of a workspace; leave build and template out")
	case in.Template != "" && in.Build != 0:
		return getBuildLogsOutput{}, toolset.UsageError("build is for a workspace; give versionID for a template")
	case in.Build < 0:
		return getBuildLogsOutput{}, toolset.UsageError("build counts from 1; leave it out for the newest one")
	}
	build, log, err := in.find(ctx, call)
	if err != nil {
		return getBuildLogsOutput{}, err
	}
	out := getBuildLogsOutput{Build: build}
	// The byte limit grows in proportion to the number of lines that are requested.
	lines := bounded(in.TailLines, defaultLogLines, maxLogLines)
	bytes := min(max(defaultLogBytes, lines*(defaultLogBytes/defaultLogLines)), maxLogBytes)
	if out.Logs, out.Truncated, err = log.Tail(ctx, call.Kube, lines, bytes); err != nil {
		return getBuildLogsOutput{}, err
	}
	switch {
	case out.Truncated:
		out.Message = fmt.Sprintf("only the newest lines are shown, at most %d KiB; a greater tailLines may return more", maxLogBytes>>10)
	case out.Logs == "":
		out.Message = "nothing has been written yet, or the log is not kept any more"
	}
	return out, nil
}

// find returns the build's details, as far as they are known, and the location of its log.
func (in getBuildLogsInput) find(ctx context.Context, call *toolset.Call) (loggedBuild, toolset.Subresource, error) {
	if in.Template != "" {
		version, err := findTemplateVersion(ctx, call, in.Namespace, in.Template, in.VersionID)
		if err != nil {
			return loggedBuild{}, toolset.Subresource{}, err
		}
		build := loggedBuild{Version: toolset.CleanText(version.VersionName), VersionID: version.ID, Status: version.JobStatus, Error: excerpt(version.Error)}
		return build, templateLog(in.Namespace, in.Template, version.ID), nil
	}
	ws, err := readWorkspace(ctx, call.Kube, in.Namespace, in.Workspace)
	if err != nil {
		return loggedBuild{}, toolset.Subresource{}, err
	}
	build := loggedBuild{Number: in.Build}
	if b := ws.Status.LatestBuild; b != nil && (in.Build == 0 || in.Build == b.Number) {
		build = loggedBuild{
			Number: b.Number, Transition: b.Transition, Version: b.TemplateVersionName, VersionID: b.TemplateVersionID,
			Status: b.Status, Error: excerpt(b.Error),
		}
	}
	var query url.Values
	if in.Agent != "" {
		query = url.Values{"source": {"agent"}, "agent": {in.Agent}}
	} else if build.Number != 0 {
		// Requests the build by number, so that the log belongs to the build described
		// above even if a newer one has started.
		query = url.Values{"build": {strconv.Itoa(int(build.Number))}}
	}
	return build, toolset.Aggregated(workspacePlural, in.Namespace, in.Workspace, "log", query), nil
}

func templateLog(namespace, name, version string) toolset.Subresource {
	return toolset.Aggregated(templatePlural, namespace, name, "log", url.Values{"version": {version}})
}
