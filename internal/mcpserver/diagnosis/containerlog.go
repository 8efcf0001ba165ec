package diagnosis

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

const (
	containerLogLines = 40
	buildLogLines     = 60
	// logBytes limits the size of a log that is kept.
	logBytes = 16 << 10
	// containerLogBytes limits the size of the kubelet's response. The kubelet cuts off the
	// newest lines at this limit, so it is far above the size of containerLogLines lines.
	containerLogBytes = 1 << 20
	// mostLogs is the maximum number of containers whose logs are read.
	mostLogs = 3
)

// containerLog is the end of the log of a container.
type containerLog struct {
	pod, container string
	// previous reports that this is the log of the container before its last restart.
	previous bool
	text     string
}

// containerLogs reads the logs of the suspects: of the present container and of the
// previous one.
func (g *gathering) containerLogs(ctx context.Context, suspects []suspect) []containerLog {
	suspects = suspects[:min(len(suspects), mostLogs)]
	logs := make([]containerLog, 0, 2*len(suspects))
	for _, s := range suspects {
		for _, previous := range []bool{false, true} {
			if previous && !hasPrevious(s) || !previous && !hasStarted(s) {
				continue
			}
			if words := g.containerLog(ctx, s, previous); words != "" {
				logs = append(logs, containerLog{pod: s.Pod.Name, container: s.Status.Name, previous: previous, text: words})
			}
		}
	}
	return logs
}

func (g *gathering) containerLog(ctx context.Context, s suspect, previous bool) string {
	query := url.Values{
		"container":  {s.Status.Name},
		"tailLines":  {strconv.Itoa(containerLogLines)},
		"limitBytes": {strconv.Itoa(containerLogBytes)},
	}
	if previous {
		query.Set("previous", "true")
	}
	path := callers.SubresourcePath(corev1.SchemeGroupVersion, s.Pod.Namespace, pods, s.Pod.Name, "log")
	words, err := g.rawTail(ctx, path, query, containerLogLines)
	// 400 means that there is no such log yet or any more, 404 that the pod was deleted.
	if err != nil && !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) {
		g.miss(ctx, &toolset.CallError{Verb: "get", Resource: podLogs, Namespace: s.Pod.Namespace, Name: s.Pod.Name, Err: err})
	}
	return words
}

// buildLog returns the end of the build log of a workspace or template. A missing log is a
// gap, because buildLog is only called if there was a build.
func (g *gathering) buildLog(ctx context.Context, resource, kind, namespace, name string, query url.Values) string {
	path := callers.SubresourcePath(aggregationv1alpha1.GroupVersion, namespace, kind, name, "log")
	words, err := g.rawTail(ctx, path, query, buildLogLines)
	if err != nil {
		g.miss(ctx, &toolset.CallError{Verb: "get", Resource: resource, Namespace: namespace, Name: name, Err: err})
	}
	return words
}

// rawTail returns the last lines of a text that the API serves.
func (g *gathering) rawTail(ctx context.Context, path string, query url.Values, lines int) (string, error) {
	reader, err := g.kube.Raw.Get(ctx, path, query)
	if err != nil {
		return "", err
	}
	defer reader.Close()
	kept, _, err := toolset.ReadTail(reader, lines, logBytes)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return toolset.CleanText(kept), nil
}

// shownLog limits the size of a log for the report.
func shownLog(l Log) Log {
	const longest = 4 << 10
	l.Text = tail(strings.TrimSpace(l.Text), longest)
	return l
}

func containerLogsShown(all []containerLog) []Log {
	shown := make([]Log, 0, len(all))
	for _, l := range all {
		shown = append(shown, shownLog(Log{Where: fmt.Sprintf("Pod/%s, container %s", l.pod, l.container), Previous: l.previous, Text: l.text}))
	}
	return shown
}

// hasStarted reports whether the current container has started, so that it has a log.
func hasStarted(s suspect) bool {
	return s.Status.State.Running != nil || s.Status.State.Terminated != nil
}

// hasPrevious reports whether the container was restarted, so that there is a previous log.
func hasPrevious(s suspect) bool {
	return s.Status.LastTerminationState.Terminated != nil && s.Status.RestartCount > 0
}
