package resources

import (
	"context"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/diagnosis"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/tools"
	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// mostPods is the maximum number of pods in a list.
const mostPods = 200

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
	items := make([]tools.Pod, 0, len(list.Items))
	for i := range list.Items {
		items = append(items, tools.DescribePod(&list.Items[i]))
	}
	return fitting("pods", items, func(shown int) string {
		return noticeIf(shown < len(items) || list.Continue != "", "there are more; list_control_plane_pods returns all")
	})
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

// events returns the newest Events about a control plane and the objects that it owns.
func (r *Resources) events(ctx context.Context, a address) (*mcp.ResourceContents, error) {
	if _, err := r.get(ctx, a.object()); err != nil {
		return nil, err
	}
	all, next, failed := toolset.ReadEvents(ctx, r.kube, client.ListOptions{Namespace: a.namespace})
	if failed != nil {
		return nil, failed
	}
	about := slices.DeleteFunc(all, func(e corev1.Event) bool { return !diagnosis.IsOfControlPlane(e.InvolvedObject, a.name) })
	slices.SortFunc(about, podproblem.CompareEvents)
	items := make([]diagnosis.Event, 0, min(len(about), mostEvents))
	for i := range about[:min(len(about), mostEvents)] {
		items = append(items, diagnosis.DescribeEvent(&about[i], toolset.CleanMessage(about[i].Message)))
	}
	return fitting("events", items, func(shown int) string {
		if next != "" {
			return "the namespace has more events than were read; get_events with the name of an object finds others"
		}
		return noticeIf(shown < len(about), "older events are left out; get_events returns more")
	})
}
