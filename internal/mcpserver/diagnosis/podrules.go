package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

func refusedPods(f podFacts) []conclusion {
	for i := range f.sets {
		set := &f.sets[i]
		refused := f.eventOf("ReplicaSet", set.Name, "FailedCreate")
		if refused == nil || set.Status.Replicas >= ptr.Deref(set.Spec.Replicas, 1) {
			continue
		}
		message := podproblem.Refusal(refused.Message)
		return one(Finding{
			Severity: severityError, Where: "ReplicaSet/" + set.Name, What: "the API server rejects its pods: " + oneLine(message, longestSentence),
			Evidence: evidence("Event FailedCreate: " + refused.Message), Do: refusalRemedy(message, f.remedy),
		}, showEvents(set.Namespace, "ReplicaSet", set.Name))
	}
	return nil
}

func refusalRemedy(message string, r remedies) string {
	switch {
	case strings.Contains(message, "exceeded quota"), strings.Contains(message, "must specify"):
		return "raise the ResourceQuota of the namespace, remove other pods, or lower " + r.resources
	case strings.Contains(message, "violates PodSecurity"):
		return "fix " + r.security + ", or allow such pods in the namespace"
	case strings.Contains(message, "LimitRange"), strings.Contains(message, "per Container"), strings.Contains(message, "per Pod"):
		return "bring " + r.resources + " within the LimitRange of the namespace"
	default:
		return "fix what the API server reports"
	}
}

func unschedulablePod(f podFacts, pod *corev1.Pod) []conclusion {
	c := podproblem.FindUnschedulable(pod)
	if c == nil {
		return nil
	}
	return podFinding(pod, wherePod(pod), "no node accepts the pod", c.Message, "condition PodScheduled, "+c.Reason, schedulingRemedy(c.Message, f.remedy))
}

func schedulingRemedy(message string, r remedies) string {
	lower := strings.ToLower(message)
	switch {
	case strings.Contains(lower, "persistentvolumeclaim"), strings.Contains(lower, "volume"):
		return "check that the PersistentVolumeClaim exists and is bound (its StorageClass, its size, its zone), or correct " + r.volumes
	case strings.Contains(lower, "insufficient"):
		return "add nodes, free capacity on them, or lower the requests in " + r.resources
	case strings.Contains(lower, "taint"), strings.Contains(lower, "selector"), strings.Contains(lower, "affinity"), strings.Contains(lower, "topology"):
		return "check which nodes fit, and correct " + r.placement
	default:
		return "check the nodes, " + r.resources + " and " + r.placement
	}
}

func evictedPod(f podFacts, pod *corev1.Pod) []conclusion {
	found := podproblem.FindEvicted(pod)
	if found == nil {
		return nil
	}
	return one(Finding{
		Severity: severityError, Where: wherePod(pod), Evidence: evidence(found.Message),
		What: fmt.Sprintf("the node terminated the pod (%s): %s", oneLine(found.Reason, longestSentence), oneLine(found.Message, longestSentence)),
		Do:   "free the resource that the node is short of, or set requests for the pod in " + f.remedy.resources,
	}, showEvents(pod.Namespace, "Pod", pod.Name))
}

// unmountedVolume reports a volume that cannot be mounted, which prevents the start of containers.
func unmountedVolume(f podFacts, pod *corev1.Pod) []conclusion {
	return fromEvents(f, pod, podproblem.MountReasons(), "a volume cannot be mounted",
		"check that the Secret, ConfigMap or PersistentVolumeClaim exists and can be attached to the node, or correct "+f.remedy.volumes)
}

// failedSandbox reports a pod for which the node cannot create a network or a sandbox.
func failedSandbox(f podFacts, pod *corev1.Pod) []conclusion {
	return fromEvents(f, pod, podproblem.SandboxReasons(), "the node cannot create the pod's sandbox",
		"check the network plugin and the container runtime of the node")
}

// fromEvents reports an Event with one of these reasons about a pending pod of which no
// container was created.
func fromEvents(f podFacts, pod *corev1.Pod, reasons []string, what, do string) []conclusion {
	e := f.eventOf("Pod", pod.Name, reasons...)
	if e == nil || pod.Status.Phase != corev1.PodPending || slices.ContainsFunc(podproblem.Containers(pod), podproblem.WasCreated) {
		return nil
	}
	return podFinding(pod, wherePod(pod), what, e.Message, "Event "+e.Reason, do)
}

// podFinding returns an error with the message of Kubernetes as evidence. source is where the
// message comes from.
func podFinding(pod *corev1.Pod, where, what, message, source, do string) []conclusion {
	return one(Finding{
		Severity: severityError, Where: where, What: what + ": " + oneLine(message, longestSentence),
		Evidence: evidence(source + ": " + message), Do: do,
	}, showEvents(pod.Namespace, "Pod", pod.Name))
}

func unpulledImage(f podFacts, s suspect) []conclusion {
	waiting := s.Status.State.Waiting
	if waiting == nil || !podproblem.IsImagePull(waiting.Reason) {
		return nil
	}
	said := waiting.Message
	// During back-off, the kubelet's message does not contain the cause. The Event of the
	// last attempt contains the registry's message.
	if e := f.failedPull(s.Pod.Name); e != nil {
		said = e.Message
	}
	cause := podproblem.PullCauseOf(waiting.Reason + " " + waiting.Message + " " + said)
	return one(Finding{
		Severity: severityError, Where: whereContainer(s),
		What:     fmt.Sprintf("image %q cannot be pulled: %s", podproblem.ImageOf(s.Pod, s.Status.Name), cmp.Or(string(cause), "the kubelet reports no reason")),
		Evidence: evidence(waiting.Reason + ": " + said), Do: cause.Remedy(f.remedy.image),
	}, showEvents(s.Pod.Namespace, "Pod", s.Pod.Name))
}

// failedPull returns the Event of the last attempt to pull an image. Other Events of the
// same reason do not contain the cause.
func (f podFacts) failedPull(pod string) *corev1.Event {
	for i := range f.events {
		e := &f.events[i]
		if e.InvolvedObject.Kind == "Pod" && e.InvolvedObject.Name == pod && strings.HasPrefix(e.Message, "Failed to pull image") {
			return e
		}
	}
	return nil
}

func invalidConfig(f podFacts, s suspect) []conclusion {
	waiting := s.Status.State.Waiting
	if waiting == nil || !podproblem.IsConfig(waiting.Reason) {
		return nil
	}
	return podFinding(s.Pod, whereContainer(s), "the container cannot be created", waiting.Message, waiting.Reason,
		"create the Secret, ConfigMap or key that the message names, or correct "+f.remedy.references)
}

// outOfMemory reports a container that was killed because of its memory limit.
func outOfMemory(f podFacts, s suspect) []conclusion {
	if ended := podproblem.LastTermination(s.Status); ended == nil || !podproblem.IsOutOfMemory(ended) {
		return nil
	}
	return one(Finding{
		Severity: severityError, Where: whereContainer(s),
		What:     fmt.Sprintf("the container was killed because it exceeded its memory limit (OOMKilled), %s", restarts(s)),
		Evidence: evidence(f.lastOutput(s)), Do: "raise the memory limit in " + f.remedy.resources,
	}, showLog(s, hasPrevious(s)))
}

func crash(f podFacts, s suspect) []conclusion {
	ended := podproblem.Ended(s.Status)
	if ended == nil || podproblem.IsOutOfMemory(ended) {
		return nil
	}
	words := f.lastOutput(s)
	what := fmt.Sprintf("the container exited with code %d", ended.ExitCode)
	if s.Status.RestartCount > 0 {
		what = fmt.Sprintf("the container exits repeatedly with code %d, %s", ended.ExitCode, restarts(s))
	}
	if line := podproblem.LastLine(words); line != "" {
		what += ": " + oneLine(line, longestSentence)
	}
	noOutput := fmt.Sprintf("%s, exit code %d, without a message", ended.Reason, ended.ExitCode)
	return one(Finding{
		Severity: severityError, Where: whereContainer(s), What: what,
		Evidence: cmp.Or(evidence(words), noOutput), Do: crashRemedy(f, s, ended),
	}, showLog(s, hasPrevious(s)))
}

func restarts(s suspect) string {
	if s.Status.RestartCount == 1 {
		return "1 restart"
	}
	return fmt.Sprintf("%d restarts", s.Status.RestartCount)
}

func crashRemedy(f podFacts, s suspect, ended *corev1.ContainerStateTerminated) string {
	killed := f.eventOf("Pod", s.Pod.Name, "Killing") != nil && f.eventOf("Pod", s.Pod.Name, "Unhealthy") != nil
	switch {
	case ended.ExitCode == 126 || ended.ExitCode == 127:
		return "correct the command: the image has no such program, or cannot run it"
	case (ended.ExitCode == 137 || ended.ExitCode == 143) && killed:
		return "the liveness probe failed and the kubelet killed it: check why it does not respond, or give it more time"
	default:
		return "fix what its last log lines report, in " + f.remedy.process
	}
}

// unreadyProcess reports a container that runs but does not become ready.
func unreadyProcess(f podFacts, s suspect) []conclusion {
	unhealthy := f.eventOf("Pod", s.Pod.Name, "Unhealthy", "ProbeWarning")
	if s.Status.State.Running == nil || unhealthy == nil {
		return nil
	}
	return aSymptom(Finding{
		Severity: severityError, Where: whereContainer(s),
		What:     "the container is running but not ready: " + oneLine(unhealthy.Message, longestSentence),
		Evidence: evidence(cmp.Or(f.logOf(s, false), unhealthy.Message)), Do: "check in its log what it waits for",
	}, showLog(s, false))
}

// restarted reports containers that are ready now but terminated with an error before.
func restarted(f podFacts) []conclusion {
	for _, s := range running(f.current) {
		ended := s.Status.LastTerminationState.Terminated
		if !s.Status.Ready || ended == nil || ended.ExitCode == 0 {
			continue
		}
		return one(Finding{
			Severity: severityWarning, Where: whereContainer(s),
			What:     fmt.Sprintf("the container is ready, but exited earlier with code %d (%s), %s", ended.ExitCode, ended.Reason, restarts(s)),
			Evidence: evidence(f.lastOutput(s)), Do: "check the log of the previous container for the reason",
		}, showLog(s, true))
	}
	return nil
}
