package diagnosis

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// mostEvents is the maximum number of Events in a report.
const mostEvents = 20

// warnings reads the Warning Events of a namespace.
func (g *gathering) warnings(ctx context.Context, namespace string) []corev1.Event {
	all, next, failed := toolset.ReadEvents(ctx, g.kube, client.ListOptions{
		Namespace: namespace, FieldSelector: fields.OneTermEqualSelector("type", corev1.EventTypeWarning),
	})
	switch {
	case failed != nil:
		g.miss(ctx, failed)
	case next != "":
		g.note(gap{events, "namespace " + namespace + " has more events than were read; get_events with the name of an object finds others"})
	}
	return all
}

// newest returns the newest Events about the objects for which concerned returns true.
func newest(all []corev1.Event, most int, concerned func(corev1.ObjectReference) bool) []corev1.Event {
	picked := slices.DeleteFunc(slices.Clone(all), func(e corev1.Event) bool { return !concerned(e.InvolvedObject) })
	slices.SortFunc(picked, podproblem.CompareEvents)
	return picked[:min(len(picked), most)]
}

// DescribeEvent describes an Event with its cleaned message.
func DescribeEvent(e *corev1.Event, message string) Event {
	return Event{
		Time: podproblem.EventTime(e).UTC().Format(time.RFC3339), Type: e.Type, Reason: toolset.CleanMessage(e.Reason), Count: podproblem.EventCount(e),
		Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, Message: message,
	}
}

// The suffixes that a Deployment appends to its name for its ReplicaSets, and a ReplicaSet
// for its pods. Kubernetes generates them from these characters.
var (
	replicaSetSuffix = regexp.MustCompile(`^-[bcdfghjklmnpqrstvwxz2456789]{1,10}$`)
	podSuffix        = regexp.MustCompile(`^-[bcdfghjklmnpqrstvwxz2456789]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// IsOfControlPlane reports whether an object is the control plane of this name or belongs to it.
// It compares names, so that it also recognizes pods that no longer exist.
func IsOfControlPlane(object corev1.ObjectReference, controlPlane string) bool {
	suffix, ok := strings.CutPrefix(object.Name, controlPlane)
	if !ok {
		return false
	}
	switch object.Kind {
	case "CoderControlPlane", "Deployment", "Service", "Ingress", "HTTPRoute":
		return suffix == ""
	case "ReplicaSet":
		return replicaSetSuffix.MatchString(suffix)
	case "Pod":
		return podSuffix.MatchString(suffix)
	}
	return false
}
