package diagnosis

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

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
		refusedPods, unschedulablePods, evictedPods, unmountedVolumes, failedSandboxes, unpulledImages, invalidConfigs,
		outOfMemory, crashes, unreadyProcesses, restarted,
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

// lastWords returns the last output of a container that terminated: its termination
// message, or its log.
func (f podFacts) lastWords(s suspect) string {
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
	arguments := map[string]any{"namespace": s.Pod.Namespace, "name": s.Pod.Name, "container": s.Status.Name}
	if previous {
		arguments["previous"] = true
	}
	return Next{Tool: "get_pod_logs", Arguments: arguments}
}

// showEvents returns the call that shows the Events of an object, or of all objects of the
// kind if name is empty.
func showEvents(namespace, kind, name string) Next {
	arguments := map[string]any{"namespace": namespace, "kind": kind}
	if name != "" {
		arguments["name"] = name
	}
	return Next{Tool: "get_events", Arguments: arguments}
}
