package diagnosis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/callers"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
)

// timeLimit limits the time for gathering. Data that was not read by then is a gap.
const timeLimit = 8 * time.Second

// gathering reads the data in parts that run concurrently. Each part must write to its own
// fields.
type gathering struct {
	kube  *callers.Kube
	parts sync.WaitGroup

	mu   sync.Mutex
	gaps []gap
}

// wait waits for all parts, which end at the latest when their context ends, and returns
// the gaps.
func (g *gathering) wait() []gap {
	g.parts.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(g.gaps, func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.sentence, b.sentence))
	})
	return slices.Compact(g.gaps)
}

// miss adds a gap for an error of a request, and none for nil.
func (g *gathering) miss(ctx context.Context, err error) {
	var call *toolset.CallError
	if errors.As(err, &call) {
		g.note(gap{call.Resource, toolset.Gap(ctx, call)})
	}
}

func (g *gathering) note(missing gap) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gaps = append(g.gaps, missing)
}

// get reads an object and returns it. It returns nil if the object does not exist or could
// not be read. A missing object is not a gap.
func get[T client.Object](ctx context.Context, g *gathering, obj T, resource string, key client.ObjectKey) (found T, missing bool) {
	err := g.kube.Get(ctx, key, obj)
	switch {
	case err == nil:
		return obj, false
	case apierrors.IsNotFound(err):
		return found, true
	}
	g.miss(ctx, &toolset.CallError{Verb: "get", Resource: resource, Namespace: key.Namespace, Name: key.Name, Err: err})
	return found, false
}

// list reads the first objects of a list. An empty namespace means all namespaces.
func (g *gathering) list(ctx context.Context, list client.ObjectList, resource, namespace string, most int64, options ...client.ListOption) {
	options = append(options, client.InNamespace(namespace), client.Limit(most))
	if err := g.kube.List(ctx, list, options...); err != nil {
		g.miss(ctx, &toolset.CallError{Verb: "list", Resource: resource, Namespace: namespace, Err: err})
		return
	}
	if list.GetContinue() != "" {
		g.note(gap{resource, fmt.Sprintf("only the first %d %s were checked, and there are more", most, resource)})
	}
}

// The resources that are read.
const (
	controlPlanes = "codercontrolplanes"
	provisioners  = "coderprovisioners"
	workspaces    = "coderworkspaces"
	templates     = "codertemplates"
	deployments   = "deployments"
	replicaSets   = "replicasets"
	pods          = "pods"
	podLogs       = "pods/log"
	events        = "events"
	workspaceLogs = "coderworkspaces/log"
	templateLogs  = "codertemplates/log"
)

// ControlPlaneRights returns the permissions that ControlPlane needs, and those that make
// its report more complete.
func ControlPlaneRights() (needs, uses []callers.Right) {
	return []callers.Right{callers.CoderRight("get", controlPlanes)}, append(podRights(),
		callers.Right{Verb: "get", Group: "apps", Resource: deployments},
		callers.CoderRight("list", provisioners), callers.AggregatedRight("list", templates), callers.AggregatedRight("get", templateLogs))
}

// WorkspaceRights returns the permissions that Workspace needs, and those that make its
// report more complete.
func WorkspaceRights() (needs, uses []callers.Right) {
	return []callers.Right{callers.AggregatedRight("get", workspaces)}, append(podRights(),
		callers.CoderRight("get", controlPlanes), callers.CoderRight("list", controlPlanes), callers.CoderRight("list", provisioners),
		callers.AggregatedRight("list", templates), callers.AggregatedRight("get", templates),
		callers.AggregatedRight("get", workspaceLogs), callers.AggregatedRight("get", templateLogs))
}

// podRights returns the permissions to find out why pods do not run.
func podRights() []callers.Right {
	return []callers.Right{
		{Verb: "list", Resource: pods}, {Verb: "get", Resource: podLogs}, {Verb: "list", Resource: events},
		{Verb: "list", Group: "apps", Resource: replicaSets},
	}
}

func isTrue(all []metav1.Condition, kind string) bool { return meta.IsStatusConditionTrue(all, kind) }

// findCondition returns the condition, or an empty one if there is none.
func findCondition(all []metav1.Condition, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(all, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind}
}

// proof formats a condition as evidence.
func proof(c metav1.Condition) string {
	return evidence("condition " + c.Type + "=" + string(c.Status) + ", " + c.Reason + ": " + c.Message)
}

func describeConditions(all []metav1.Condition) []Condition {
	described := make([]Condition, 0, len(all))
	for _, c := range all {
		described = append(described, Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: oneLine(c.Message, longestMessage)})
	}
	return described
}

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
	log := toolset.PodLog(s.Pod.Namespace, s.Pod.Name, &corev1.PodLogOptions{
		Container: s.Status.Name, Previous: previous,
		TailLines: ptr.To[int64](containerLogLines), LimitBytes: ptr.To[int64](containerLogBytes),
	})
	text, _, err := log.Tail(ctx, g.kube, containerLogLines, logBytes)
	// 400 means that there is no such log yet or any more, 404 that the pod was deleted.
	if !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) {
		g.miss(ctx, err)
	}
	return text
}

// buildLog returns the end of the build log of a workspace or template. A missing log is a
// gap, because buildLog is only called if there was a build.
func (g *gathering) buildLog(ctx context.Context, resource, namespace, name string, query url.Values) string {
	text, _, err := toolset.Aggregated(resource, namespace, name, "log", query).Tail(ctx, g.kube, buildLogLines, logBytes)
	g.miss(ctx, err)
	return text
}

// hasStarted reports whether the current container has started, so that it has a log.
func hasStarted(s suspect) bool {
	return s.Status.State.Running != nil || s.Status.State.Terminated != nil
}

// hasPrevious reports whether the container was restarted, so that there is a previous log.
func hasPrevious(s suspect) bool {
	return s.Status.LastTerminationState.Terminated != nil && s.Status.RestartCount > 0
}
