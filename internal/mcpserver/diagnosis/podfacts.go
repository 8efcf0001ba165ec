package diagnosis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/mcpserver/toolset"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// podFacts contains the data that was read about the pods of a control plane or a
// workspace.
type podFacts struct {
	// current contains the pods of the newest revision that are not terminating.
	current []corev1.Pod
	// sets contains the ReplicaSets that should have pods.
	sets []appsv1.ReplicaSet
	// events contains the Events about the pods and the ReplicaSets, newest first.
	events []corev1.Event
	logs   []containerLog
	remedy remedies
}

// remedies names the places where the owner of the pods can correct each kind of problem.
type remedies struct {
	image, resources, placement, volumes, references, security, process string
}

// podRules returns the rules about pods that do not run, in the order of a pod's start:
// creation, scheduling, volumes, image, configuration, process.
func podRules() []rule[podFacts] {
	return []rule[podFacts]{
		refusedPods, forPods(unschedulablePod), forPods(evictedPod), forPods(unmountedVolume), forPods(failedSandbox),
		forUnready(unpulledImage), forUnready(invalidConfig), forUnready(outOfMemory), forUnready(crash), forUnready(unreadyProcess), restarted,
	}
}

// forPods returns a rule that applies look to the current pods until it finds something.
func forPods(look func(podFacts, *corev1.Pod) []conclusion) rule[podFacts] {
	return func(f podFacts) []conclusion {
		for i := range f.current {
			if found := look(f, &f.current[i]); found != nil {
				return found
			}
		}
		return nil
	}
}

// forUnready returns a rule that applies look to the containers that are not ready, until it
// finds something.
func forUnready(look func(podFacts, suspect) []conclusion) rule[podFacts] {
	return func(f podFacts) []conclusion {
		for _, s := range inTrouble(f.current) {
			if found := look(f, s); found != nil {
				return found
			}
		}
		return nil
	}
}

func (f podFacts) eventOf(kind, name string, reasons ...string) *corev1.Event {
	for i := range f.events {
		e := &f.events[i]
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == name && slices.Contains(reasons, e.Reason) {
			return e
		}
	}
	return nil
}

// logOf returns the log of a container, or of its previous instance.
func (f podFacts) logOf(s suspect, previous bool) string {
	for _, l := range f.logs {
		if l.pod == s.Pod.Name && l.container == s.Status.Name && l.previous == previous {
			return l.text
		}
	}
	return ""
}

// lastOutput returns the last output of a container that terminated: its termination
// message, or its log.
func (f podFacts) lastOutput(s suspect) string {
	ended := podproblem.LastTermination(s.Status)
	if ended == nil {
		return ""
	}
	if ended.Message != "" {
		return ended.Message
	}
	return f.logOf(s, s.Status.State.Terminated == nil)
}

func wherePod(pod *corev1.Pod) string { return "Pod/" + pod.Name }

func whereContainer(s suspect) string {
	return fmt.Sprintf("Pod/%s, container %s", s.Pod.Name, s.Status.Name)
}

func showLog(s suspect, previous bool) Next {
	next := about("get_pod_logs", s.Pod.Namespace, s.Pod.Name).with("container", s.Status.Name)
	if previous {
		next = next.with("previous", true)
	}
	return next
}

// showEvents returns the call that shows the Events of an object, or of all objects of the
// kind if name is empty.
func showEvents(namespace, kind, name string) Next {
	next := inNamespace("get_events", namespace).with("kind", kind)
	if name != "" {
		next = next.with("name", name)
	}
	return next
}

const (
	mostPods        = 20
	mostReplicaSets = 50
)

// suspect is a container whose log may contain the cause.
type suspect = podproblem.Unready

// inTrouble returns the containers of the pods that are not ready.
func inTrouble(all []corev1.Pod) []suspect {
	var found []suspect
	for i := range all {
		found = append(found, podproblem.FindUnready(&all[i])...)
	}
	return found
}

// running returns the containers of the pods that run.
func running(all []corev1.Pod) []suspect {
	var found []suspect
	for i := range all {
		for _, status := range all[i].Status.ContainerStatuses {
			if status.State.Running != nil {
				found = append(found, suspect{Pod: &all[i], Status: &status})
			}
		}
	}
	return found
}

func isEnding(pod *corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() }

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// byRevision splits the pods that are not terminating into those of the newest revision and
// the others. If newest is nil, all pods are of the newest revision.
func byRevision(all []corev1.Pod, newest *appsv1.ReplicaSet) (current, earlier []corev1.Pod) {
	for _, pod := range all {
		switch {
		case isEnding(&pod):
		case newest == nil || metav1.GetControllerOf(&pod) == nil || metav1.IsControlledBy(&pod, newest):
			current = append(current, pod)
		default:
			earlier = append(earlier, pod)
		}
	}
	return current, earlier
}

// describePods returns one line for each pod. Pods that are not ready come first.
func describePods(all []corev1.Pod) []Pod {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(rank(podproblem.IsReady(&a)), rank(podproblem.IsReady(&b))), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	described := make([]Pod, 0, len(sorted))
	for i := range sorted {
		described = append(described, describePod(&sorted[i]))
	}
	return described
}

func rank(last bool) int {
	if last {
		return 1
	}
	return 0
}

func describePod(pod *corev1.Pod) Pod {
	described := Pod{Namespace: pod.Namespace, Name: pod.Name, Phase: string(pod.Status.Phase), State: stateOf(pod)}
	ready := 0
	for _, status := range pod.Status.ContainerStatuses {
		ready += rank(status.Ready)
	}
	for _, status := range podproblem.Containers(pod) {
		described.Restarts += status.RestartCount
	}
	described.Ready = fmt.Sprintf("%d/%d", ready, len(pod.Spec.Containers))
	return described
}

// stateOf returns why a pod is not ready, as a reason of Kubernetes.
func stateOf(pod *corev1.Pod) string {
	if isEnding(pod) {
		return "Terminating"
	}
	for _, s := range podproblem.FindUnready(pod) {
		switch {
		case s.Status.State.Waiting != nil && s.Status.State.Waiting.Reason != "":
			return s.Status.State.Waiting.Reason
		case s.Status.State.Terminated != nil:
			return s.Status.State.Terminated.Reason
		}
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return c.Reason
	}
	return pod.Status.Reason
}

// mostEvents is the maximum number of Events in a report.
const mostEvents = 50

func (g *gathering) eventsOf(ctx context.Context, namespace string) []corev1.Event {
	all, next, failed := toolset.ReadEvents(ctx, g.kube, client.ListOptions{Namespace: namespace})
	switch {
	case failed != nil:
		g.miss(ctx, failed)
	case next != "":
		g.note(gap{events, "namespace " + namespace + " has more events than were read; get_events with the name of an object finds others"})
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
		described = append(described, DescribeEvent(&all[i], oneLine(all[i].Message, longestMessage)))
	}
	return described
}

// DescribeEvent describes an Event with its cleaned message.
func DescribeEvent(e *corev1.Event, message string) Event {
	return Event{
		Time: podproblem.EventTime(e).UTC().Format(time.RFC3339), Type: e.Type, Reason: toolset.CleanMessage(e.Reason), Count: podproblem.EventCount(e),
		Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, Message: message,
	}
}
