package resources

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

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
