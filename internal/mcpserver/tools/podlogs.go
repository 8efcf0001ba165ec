package tools

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	defaultLogLines = 200
	maxLogLines     = 5000
	defaultLogBytes = 64 << 10
	maxLogBytes     = 1 << 20

	// defaultContainerAnnotation is the annotation in which a pod names its default
	// container.
	defaultContainerAnnotation = "kubectl.kubernetes.io/default-container"
)

func addGetPodLogs(s *toolset.Set) {
	toolset.Add(s, toolset.Definition{
		Name: "get_pod_logs", Title: "Pod log",
		Description: "Shows the newest lines of a container; previous: before its restart.",
		Toolset:     toolset.Observation, Effect: toolset.Reads, Idempotent: true,
		Rights: []callers.Right{{Verb: "get", Resource: "pods/log"}},
		Uses:   []callers.Right{{Verb: "get", Resource: "pods"}},
	}, getPodLogs)
}

type getPodLogsInput struct {
	Namespace    string `json:"namespace"`
	Name         string `json:"name"`
	Container    string `json:"container,omitempty"`
	TailLines    int    `json:"tailLines,omitempty" maximum:"5000"`
	LimitBytes   int    `json:"limitBytes,omitempty"`
	Previous     bool   `json:"previous,omitempty"`
	SinceSeconds int64  `json:"sinceSeconds,omitempty"`
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
	if err := toolset.RequireObject(in.Namespace, in.Name); err != nil {
		return getPodLogsOutput{}, err
	}
	container, err := chooseContainer(ctx, call.Kube, in)
	if err != nil {
		return getPodLogsOutput{}, err
	}
	lines, bytes := bounded(in.TailLines, defaultLogLines, maxLogLines), bounded(in.LimitBytes, defaultLogBytes, maxLogBytes)
	logs, cut, err := readLog(ctx, call.Kube, in, container, lines, bytes)
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
	p := &corev1.Pod{}
	err := kube.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: in.Name}, p)
	switch {
	case apierrors.IsForbidden(err):
		return "", nil
	case err != nil:
		return "", podError("pods", in, err)
	case len(p.Spec.Containers) == 1:
		return p.Spec.Containers[0].Name, nil
	}
	names := containerNames(p)
	if preferred := p.Annotations[defaultContainerAnnotation]; slices.Contains(names, preferred) {
		return preferred, nil
	}
	return "", toolset.UsageError(fmt.Sprintf("pod %s/%s has several containers; give container: one of %s", in.Namespace, in.Name, strings.Join(names, ", ")))
}

func containerNames(p *corev1.Pod) []string {
	var names []string
	for i := range p.Spec.Containers {
		names = append(names, p.Spec.Containers[i].Name)
	}
	for i := range p.Spec.InitContainers {
		names = append(names, p.Spec.InitContainers[i].Name)
	}
	for i := range p.Spec.EphemeralContainers {
		names = append(names, p.Spec.EphemeralContainers[i].Name)
	}
	return names
}

// readLog returns the newest lines of a log. It requests one more line than it keeps, to
// find out whether the log is longer.
func readLog(ctx context.Context, kube *callers.Kube, in getPodLogsInput, container string, lines, bytes int) (logs string, cut bool, err error) {
	query := url.Values{"tailLines": {strconv.Itoa(lines + 1)}}
	if container != "" {
		query.Set("container", container)
	}
	if in.Previous {
		query.Set("previous", "true")
	}
	if in.SinceSeconds > 0 {
		query.Set("sinceSeconds", strconv.FormatInt(in.SinceSeconds, 10))
	}
	stream, err := kube.Raw.Get(ctx, callers.SubresourcePath(corev1.SchemeGroupVersion, in.Namespace, "pods", in.Name, "log"), query)
	if err != nil {
		return "", false, podError("pods/log", in, err)
	}
	defer stream.Close()
	kept, cut, err := toolset.ReadTail(stream, lines, bytes)
	if err != nil {
		return "", false, podError("pods/log", in, err)
	}
	// Redaction can make a text longer.
	logs, cutAgain, err := toolset.ReadTail(strings.NewReader(toolset.CleanText(kept)), lines, bytes)
	return logs, cut || cutAgain, err
}

func podError(resource string, in getPodLogsInput, err error) error {
	return &toolset.CallError{Verb: "get", Resource: resource, Namespace: in.Namespace, Name: in.Name, Err: err}
}
