package resources

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// mostPods is the maximum number of pods in a list.
const mostPods = 200

type pod struct {
	Name  string `json:"name"`
	Phase string `json:"phase"`
	// Ready is the number of its containers that are ready: "1/2".
	Ready    string `json:"ready"`
	Restarts int32  `json:"restarts"`
	Node     string `json:"node,omitempty"`
	// Started is in RFC 3339.
	Started    string      `json:"started,omitempty"`
	Reason     string      `json:"reason,omitempty"`
	Containers []container `json:"containers"`
}

type container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	Ready bool   `json:"ready"`
	// State is "running", or why the container does not run.
	State string `json:"state"`
	// Last describes how the container terminated before its last restart.
	Last string `json:"last,omitempty"`
}

type podList struct {
	Pods      []pod  `json:"pods"`
	Truncated bool   `json:"truncated,omitempty"`
	Notice    string `json:"notice,omitempty"`
}

func (r *Resources) pods(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	obj, err := r.get(ctx, a.object())
	if err != nil {
		return nil, err
	}
	cp := &coderv1alpha1.CoderControlPlane{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, cp); err != nil {
		return nil, fmt.Errorf("reading the control plane: %w", err)
	}
	list, of := &corev1.PodList{}, client.MatchingLabels(cp.PodLabels())
	if err := r.kube.List(ctx, list, client.InNamespace(a.namespace), of, client.Limit(mostPods)); err != nil {
		return nil, &toolset.CallError{Verb: "list", Resource: "pods", Namespace: a.namespace, Err: err}
	}
	items := make([]pod, 0, len(list.Items))
	for i := range list.Items {
		items = append(items, describePod(&list.Items[i]))
	}
	return fitting(items, func(shown []pod) any {
		answer := podList{Pods: shown}
		if len(shown) < len(items) || list.Continue != "" {
			answer.Truncated, answer.Notice = true, "there are more; list_control_plane_pods returns all"
		}
		return answer
	})
}

func describePod(p *corev1.Pod) pod {
	out := pod{
		Name: p.Name, Phase: string(p.Status.Phase), Node: p.Spec.NodeName, Reason: toolset.CleanText(p.Status.Reason),
		Containers: []container{},
	}
	if p.Status.StartTime != nil {
		out.Started = p.Status.StartTime.UTC().Format(time.RFC3339)
	}
	if p.DeletionTimestamp != nil {
		out.Reason = "Terminating"
	}
	ready := 0
	for _, status := range p.Status.ContainerStatuses {
		if status.Ready {
			ready++
		}
		out.Restarts += status.RestartCount
	}
	out.Ready = fmt.Sprintf("%d/%d", ready, len(p.Spec.Containers))
	for _, status := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		out.Containers = append(out.Containers, container{
			Name: status.Name, Image: status.Image, Ready: status.Ready, State: describeState(status.State), Last: lastEnd(status.LastTerminationState),
		})
	}
	return out
}

func describeState(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Waiting != nil:
		return redactText(joined(s.Waiting.Reason, s.Waiting.Message))
	case s.Terminated != nil:
		return lastEnd(s)
	}
	return "waiting"
}

// lastEnd describes how a container terminated. It returns "" if it did not.
func lastEnd(s corev1.ContainerState) string {
	if s.Terminated == nil {
		return ""
	}
	return redactText(joined(fmt.Sprintf("%s, exit code %d", s.Terminated.Reason, s.Terminated.ExitCode), s.Terminated.Message))
}

func joined(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

// Limits of a log excerpt.
const (
	logLines = 200
	logBytes = 64 << 10
)

func (r *Resources) log(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	lines, cut, err := a.subresource("log").Tail(ctx, r.kube, logLines, logBytes)
	if err != nil {
		return nil, err
	}
	if cut {
		lines = "(older lines are left out; get_build_logs returns more)\n" + lines
	}
	return &mcp.ResourceContents{MIMEType: textType, Text: "(" + toolset.Untrusted + ")\n" + lines}, nil
}

func (a address) subresource(name string) toolset.Subresource {
	return toolset.Aggregated(a.collection.resource, a.namespace, a.name, name, nil)
}

// mostEvents is the maximum number of Events in an answer.
const mostEvents = 50

type event struct {
	// Time is the time of the last occurrence, in RFC 3339.
	Time    string `json:"time"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Object  string `json:"object"`
	Message string `json:"message"`
	Count   int32  `json:"count"`
}

type eventList struct {
	// Events are sorted, newest first.
	Events    []event `json:"events"`
	Truncated bool    `json:"truncated,omitempty"`
	Notice    string  `json:"notice,omitempty"`
}

// events returns the newest Events about a control plane and the objects that it owns.
func (r *Resources) events(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	if _, err := r.get(ctx, a.object()); err != nil {
		return nil, err
	}
	all, next, failed := toolset.ReadEvents(ctx, r.kube, client.ListOptions{Namespace: a.namespace})
	if failed != nil {
		return nil, failed
	}
	about := slices.DeleteFunc(all, func(e corev1.Event) bool { return !isAbout(e.InvolvedObject, a) })
	slices.SortFunc(about, podproblem.CompareEvents)
	items := make([]event, 0, min(len(about), mostEvents))
	for i := range about[:min(len(about), mostEvents)] {
		items = append(items, describeEvent(&about[i]))
	}
	return fitting(items, func(shown []event) any {
		answer := eventList{Events: shown}
		switch {
		case next != "":
			answer.Truncated, answer.Notice = true, "the namespace has more events than were read; get_events with the name of an object finds others"
		case len(shown) < len(about):
			answer.Truncated, answer.Notice = true, "older events are left out; get_events returns more"
		}
		return answer
	})
}

// The suffixes that a Deployment appends to its name for its ReplicaSets, and a ReplicaSet
// for its pods. Kubernetes generates them from these characters.
var (
	replicaSetSuffix = regexp.MustCompile(`^-[bcdfghjklmnpqrstvwxz2456789]{1,10}$`)
	podSuffix        = regexp.MustCompile(`^-[bcdfghjklmnpqrstvwxz2456789]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// isAbout reports whether an object is the control plane or belongs to it. It compares
// names, so that it also recognizes pods that no longer exist.
func isAbout(object corev1.ObjectReference, a address) bool {
	suffix, ok := strings.CutPrefix(object.Name, a.name)
	if !ok {
		return false
	}
	switch object.Kind {
	case a.collection.kind.Kind, "Deployment", "Service":
		return suffix == ""
	case "ReplicaSet":
		return replicaSetSuffix.MatchString(suffix)
	case "Pod":
		return podSuffix.MatchString(suffix)
	}
	return false
}

func describeEvent(e *corev1.Event) event {
	return event{
		Time: podproblem.EventTime(e).UTC().Format(time.RFC3339), Type: e.Type, Reason: e.Reason, Count: podproblem.EventCount(e),
		Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, Message: redactText(e.Message),
	}
}
