package diagnosis

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// mostEvents is the maximum number of Events in a report.
const mostEvents = 50

// eventsOf reads the Events of a namespace.
func (g *gathering) eventsOf(ctx context.Context, namespace string) []corev1.Event {
	all, next, failed := toolset.ReadEvents(ctx, g.kube, client.ListOptions{Namespace: namespace})
	switch {
	case failed != nil:
		g.miss(ctx, failed)
	case next != "":
		g.note(gap{events, "namespace " + namespace + " has more events than are looked at; get_events with the name of an object finds others"})
	}
	return all
}

// concerning returns the newest mostEvents Events about the objects for which concerned
// returns true, newest first.
func concerning(all []corev1.Event, concerned func(object corev1.ObjectReference) bool) []corev1.Event {
	picked := slices.DeleteFunc(slices.Clone(all), func(e corev1.Event) bool { return !concerned(e.InvolvedObject) })
	slices.SortFunc(picked, podproblem.CompareEvents)
	return picked[:min(len(picked), mostEvents)]
}

func describeEvents(all []corev1.Event) []Event {
	described := make([]Event, 0, len(all))
	for i := range all {
		e := &all[i]
		described = append(described, Event{
			Time: podproblem.EventTime(e).UTC().Format(time.RFC3339), Type: e.Type, Reason: e.Reason, Count: podproblem.EventCount(e),
			Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, Message: oneLine(e.Message, longestMessage),
		})
	}
	return described
}
