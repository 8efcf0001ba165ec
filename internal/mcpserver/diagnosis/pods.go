package diagnosis

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

const (
	mostPods        = 20
	mostReplicaSets = 50
	// mostLogs is the maximum number of containers whose logs are read.
	mostLogs = 3
	// containerLogBytes limits the size of the kubelet's response. The kubelet cuts off the
	// newest lines at this limit, so it is far above the size of readLogLines lines.
	containerLogBytes = 1 << 20
)

// podFacts contains what was read about the pods of a control plane or a workspace.
type podFacts struct {
	// pods contains all pods; current those of the newest revision that are not terminating.
	pods, current []corev1.Pod
	sets          []appsv1.ReplicaSet
	logs          []containerLog
	// events contains the Warning Events about the object and its pods, newest first.
	events []corev1.Event
}

type containerLog struct {
	pod       *corev1.Pod
	container string
	// previous reports that this is the log of the container before its last restart.
	previous bool
	text     string
}

// choose sets the pods of the newest revision that are not terminating. A pod without a
// ReplicaSet is of the newest revision.
func (f *podFacts) choose(newest *appsv1.ReplicaSet) {
	for i := range f.pods {
		pod := &f.pods[i]
		old := newest != nil && metav1.GetControllerOf(pod) != nil && !metav1.IsControlledBy(pod, newest)
		if pod.DeletionTimestamp.IsZero() && !old {
			f.current = append(f.current, *pod)
		}
	}
}

// readLogs reads the logs that may contain the cause: of the containers that are not ready, or,
// if there are none but something is wrong, of those that run.
func (f *podFacts) readLogs(ctx context.Context, g *gathering, wrong bool) {
	var unready, running []podproblem.Unready
	for i := range f.current {
		unready = append(unready, podproblem.FindUnready(&f.current[i])...)
		for _, status := range f.current[i].Status.ContainerStatuses {
			if status.State.Running != nil {
				running = append(running, podproblem.Unready{Pod: &f.current[i], Status: &status})
			}
		}
	}
	if len(unready) == 0 && wrong {
		unready = running
	}
	for _, c := range unready[:min(len(unready), mostLogs)] {
		if c.Status.State.Running != nil || c.Status.State.Terminated != nil {
			f.readLog(ctx, g, c, false)
		}
		if c.Status.LastTerminationState.Terminated != nil && c.Status.RestartCount > 0 {
			f.readLog(ctx, g, c, true)
		}
	}
}

func (f *podFacts) readLog(ctx context.Context, g *gathering, c podproblem.Unready, previous bool) {
	text, _, err := toolset.PodLog(c.Pod.Namespace, c.Pod.Name, &corev1.PodLogOptions{
		Container: c.Status.Name, Previous: previous, TailLines: ptr.To[int64](readLogLines), LimitBytes: ptr.To[int64](containerLogBytes),
	}).Tail(ctx, g.kube, readLogLines, logBytes)
	// There may be no such log yet or any more, or the pod was deleted.
	if !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) {
		g.miss(ctx, err)
	}
	if text != "" {
		f.logs = append(f.logs, containerLog{c.Pod, c.Status.Name, previous, text})
	}
}

// problems returns what keeps the pods from running. place is where they are configured. Pods
// with the same problem are reported once.
func (f *podFacts) problems(place string) []Problem {
	var found []Problem
	add := func(namespace, object, reason, message, do string) {
		p := Problem{Namespace: namespace, Object: object, Reason: shown(reason), Message: shown(message), Do: do}
		if !slices.ContainsFunc(found, func(other Problem) bool { return other.Message == p.Message }) {
			found = append(found, p)
		}
	}
	for i := range f.sets {
		if p := podproblem.FindRefusedBySet(&f.sets[i]); p != nil {
			add(f.sets[i].Namespace, "ReplicaSet/"+f.sets[i].Name, p.Reason, p.Sentence(shown), p.Remedy(place))
		}
	}
	for i := range f.current {
		pod := &f.current[i]
		object := "Pod/" + pod.Name
		if p := f.problemOf(pod); p != nil {
			add(pod.Namespace, object, p.Reason, p.Sentence(shown)+f.lastLine(pod, p), p.Remedy(place))
		}
		for _, status := range pod.Status.ContainerStatuses {
			ended := status.LastTerminationState.Terminated
			switch {
			case status.State.Running == nil:
			case ended != nil && ended.ExitCode != 0:
				add(pod.Namespace, object, ended.Reason, fmt.Sprintf("container %q runs again after it exited with code %d (%s); restarts: %d",
					status.Name, ended.ExitCode, ended.Reason, status.RestartCount), "see its previous log")
			case !status.Ready:
				add(pod.Namespace, object, "NotReady", fmt.Sprintf("container %q runs but is not ready", status.Name), "see in its log what it waits for")
			}
		}
	}
	return found
}

// problemOf returns what keeps a pod from running, or nil.
func (f *podFacts) problemOf(pod *corev1.Pod) *podproblem.Problem {
	about := slices.DeleteFunc(slices.Clone(f.events), func(e corev1.Event) bool {
		return e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.Name != pod.Name || e.InvolvedObject.Namespace != pod.Namespace
	})
	p := podproblem.Find(pod)
	switch {
	case p == nil && podproblem.IsStuck(pod):
		return podproblem.FromEvents(about)
	case p != nil && p.Kind == podproblem.ImagePull && p.PullCause() == podproblem.PullCauseUnknown:
		// During back-off, older kubelets report the cause only in the Event of the last attempt.
		for _, e := range about {
			if strings.HasPrefix(e.Message, "Failed to pull image") {
				p.Message = e.Message
				break
			}
		}
	}
	return p
}

// lastLine returns the last line of a container that crashed, as the end of a sentence, or "".
func (f *podFacts) lastLine(pod *corev1.Pod, p *podproblem.Problem) string {
	if p.Kind != podproblem.Crash {
		return ""
	}
	words := ""
	for _, status := range podproblem.Containers(pod) {
		if ended := podproblem.LastTermination(&status); status.Name == p.Container && ended != nil {
			words = ended.Message
		}
	}
	for _, l := range f.logs {
		if words == "" && l.pod == pod && l.container == p.Container {
			words = l.text
		}
	}
	if line := podproblem.LastLine(words); line != "" {
		return ": " + line
	}
	return ""
}

func (f *podFacts) describe(r *Report) {
	slices.SortStableFunc(f.pods, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(rank(podproblem.IsReady(&a)), rank(podproblem.IsReady(&b))), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i := range f.pods {
		pod := &f.pods[i]
		described := Pod{Namespace: pod.Namespace, Name: pod.Name, Phase: string(pod.Status.Phase), State: shown(pod.Status.Reason)}
		if p := podproblem.Find(pod); p != nil {
			described.State = shown(p.Reason)
		}
		if !pod.DeletionTimestamp.IsZero() {
			described.State = "Terminating"
		}
		ready := 0
		for _, status := range pod.Status.ContainerStatuses {
			ready += rank(status.Ready)
		}
		for _, status := range podproblem.Containers(pod) {
			described.Restarts += status.RestartCount
		}
		described.Ready = fmt.Sprintf("%d/%d", ready, len(pod.Spec.Containers))
		r.Pods = append(r.Pods, described)
	}
	for i := range f.events {
		e := &f.events[i]
		r.Events = append(r.Events, Event{
			Time: podproblem.EventTime(e).UTC().Format(time.RFC3339), Type: e.Type, Reason: toolset.CleanMessage(e.Reason), Count: podproblem.EventCount(e),
			Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, Message: oneLine(e.Message, longestSentence),
		})
	}
	for _, l := range f.logs {
		r.Logs = append(r.Logs, Log{Where: fmt.Sprintf("Pod/%s, container %s", l.pod.Name, l.container), Previous: l.previous, Text: lastLines(l.text)})
	}
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

func (g *gathering) podsAndSets(ctx context.Context, f *podFacts, namespace string, labels client.MatchingLabels) {
	list := &corev1.PodList{}
	g.list(ctx, list, pods, namespace, mostPods, labels)
	f.pods = append(f.pods, list.Items...)
	g.setsOf(ctx, f, namespace, labels)
}

func (g *gathering) setsOf(ctx context.Context, f *podFacts, namespace string, labels client.MatchingLabels) {
	list := &appsv1.ReplicaSetList{}
	g.list(ctx, list, replicaSets, namespace, mostReplicaSets, labels)
	f.sets = append(f.sets, list.Items...)
}

const mostEvents = 20

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
