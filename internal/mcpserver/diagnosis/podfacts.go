package diagnosis

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// podFacts is what is known of pods, whoever they belong to.
type podFacts struct {
	// current are those of the newest revision that are not ending.
	current []corev1.Pod
	// sets are the ReplicaSets whose pods are wanted now.
	sets []appsv1.ReplicaSet
	// events are about the pods and the ReplicaSets, the newest first.
	events []corev1.Event
	logs   []containerLog
	remedy remedies
}

// remedies are where the one who made the pods would mend them.
type remedies struct {
	image, resources, placement, volumes, references, security, process string
}

// podRules are about pods that do not run, in the order in which a pod comes to
// run: it is made, gets a node, its volumes, its image, its configuration, runs.
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

// logOf is the log that tells why a container ended, or is not ready.
func (f podFacts) logOf(s suspect, previous bool) string {
	for _, l := range f.logs {
		if l.pod == s.Pod.Name && l.container == s.Status.Name && l.previous == previous {
			return l.text
		}
	}
	return ""
}

// lastWords are those of a container that ended: what the kubelet kept of them, or
// its log.
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

// showEvents shows those of an object, or of all of a kind where no name is given.
func showEvents(namespace, kind, name string) Next {
	arguments := map[string]any{"namespace": namespace, "kind": kind}
	if name != "" {
		arguments["name"] = name
	}
	return Next{Tool: "get_events", Arguments: arguments}
}
