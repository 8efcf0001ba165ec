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

// refusedPods reports pods that the API server rejects.
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
	return nothing()
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

// unschedulablePods reports pods that cannot be scheduled.
func unschedulablePods(f podFacts) []conclusion {
	for i := range f.current {
		pod := &f.current[i]
		c := podproblem.FindUnschedulable(pod)
		if c == nil {
			continue
		}
		return one(Finding{
			Severity: severityError, Where: wherePod(pod), What: "no node accepts the pod: " + oneLine(c.Message, longestSentence),
			Evidence: evidence("condition PodScheduled, " + c.Reason + ": " + c.Message), Do: schedulingRemedy(c.Message, f.remedy),
		}, showEvents(pod.Namespace, "Pod", pod.Name))
	}
	return nothing()
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

// evictedPods reports pods that their node evicted.
func evictedPods(f podFacts) []conclusion {
	for i := range f.current {
		pod := &f.current[i]
		found := podproblem.FindEvicted(pod)
		if found == nil {
			continue
		}
		return one(Finding{
			Severity: severityError, Where: wherePod(pod), Evidence: evidence(found.Message),
			What: fmt.Sprintf("the node terminated the pod (%s): %s", oneLine(found.Reason, longestSentence), oneLine(found.Message, longestSentence)),
			Do:   "free the resource that the node is short of, or set requests for the pod in " + f.remedy.resources,
		}, showEvents(pod.Namespace, "Pod", pod.Name))
	}
	return nothing()
}

// unmountedVolumes reports volumes that cannot be mounted, which prevents the start of
// containers.
func unmountedVolumes(f podFacts) []conclusion {
	return fromEvents(f, podproblem.MountReasons(), "a volume cannot be mounted",
		"check that the Secret, ConfigMap or PersistentVolumeClaim exists and can be attached to the node, or correct "+f.remedy.volumes)
}

// failedSandboxes reports pods for which the node cannot create a network or a sandbox.
func failedSandboxes(f podFacts) []conclusion {
	return fromEvents(f, podproblem.SandboxReasons(), "the node cannot create the pod's sandbox",
		"check the network plugin and the container runtime of the node")
}

// fromEvents reports Events with these reasons about pending pods of which no container was
// created.
func fromEvents(f podFacts, reasons []string, what, do string) []conclusion {
	for i := range f.current {
		pod := &f.current[i]
		if pod.Status.Phase != corev1.PodPending || slices.ContainsFunc(podproblem.Containers(pod), podproblem.WasCreated) {
			continue
		}
		if e := f.eventOf("Pod", pod.Name, reasons...); e != nil {
			return one(Finding{
				Severity: severityError, Where: wherePod(pod), What: what + ": " + oneLine(e.Message, longestSentence),
				Evidence: evidence("Event " + e.Reason + ": " + e.Message), Do: do,
			}, showEvents(pod.Namespace, "Pod", pod.Name))
		}
	}
	return nothing()
}

// unpulledImages reports images that a node cannot pull.
func unpulledImages(f podFacts) []conclusion {
	for _, s := range inTrouble(f.current) {
		waiting := s.Status.State.Waiting
		if waiting == nil || !podproblem.IsImagePull(waiting.Reason) {
			continue
		}
		said := waiting.Message
		// During back-off, the kubelet's message does not contain the cause. The Event of
		// the last attempt contains the registry's message.
		if e := f.failedPull(s.Pod.Name); e != nil {
			said = e.Message
		}
		cause, do := pullCause(waiting.Reason+" "+waiting.Message+" "+said, f.remedy)
		return one(Finding{
			Severity: severityError, Where: whereContainer(s),
			What:     fmt.Sprintf("image %q cannot be pulled: %s", podproblem.ImageOf(s.Pod, s.Status.Name), cause),
			Evidence: evidence(waiting.Reason + ": " + said), Do: do,
		}, showEvents(s.Pod.Namespace, "Pod", s.Pod.Name))
	}
	return nothing()
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

// pullCause returns why an image cannot be pulled, and what to do.
func pullCause(said string, r remedies) (text, do string) {
	cause := podproblem.PullCauseOf(said)
	text = cmp.Or(cause.String(), "the kubelet reports no reason")
	switch cause {
	case podproblem.NeverPulled:
		return text, "load it onto the node, or change the pull policy beside " + r.image
	case podproblem.InvalidName:
		return text, "correct " + r.image
	case podproblem.UnknownRegistry:
		return text, "correct the registry in " + r.image + ", or the DNS of the node"
	case podproblem.NoSuchImage:
		return text, "correct the name or the tag in " + r.image
	case podproblem.AccessDenied:
		return text, "correct " + r.image + ", or give the pod pull secrets for the registry"
	case podproblem.UntrustedCertificate:
		return text, "have the node trust it, or correct " + r.image
	case podproblem.RateLimited:
		return text, "wait, log in to the registry with pull secrets, or use a mirror"
	case podproblem.NoAnswer:
		return text, "check that the node can reach the registry, or correct it in " + r.image
	case podproblem.PullCauseUnknown:
		return text, "check the Events of the pod, and correct " + r.image
	default:
		return text, "check the Events of the pod, and correct " + r.image
	}
}

// invalidConfigs reports containers that the kubelet cannot create.
func invalidConfigs(f podFacts) []conclusion {
	for _, s := range inTrouble(f.current) {
		waiting := s.Status.State.Waiting
		if waiting == nil || !podproblem.IsConfig(waiting.Reason) {
			continue
		}
		return one(Finding{
			Severity: severityError, Where: whereContainer(s), What: "the container cannot be created: " + oneLine(waiting.Message, longestSentence),
			Evidence: evidence(waiting.Reason + ": " + waiting.Message),
			Do:       "create the Secret, ConfigMap or key that the message names, or correct " + f.remedy.references,
		}, showEvents(s.Pod.Namespace, "Pod", s.Pod.Name))
	}
	return nothing()
}

// outOfMemory reports containers that were killed because of their memory limit.
func outOfMemory(f podFacts) []conclusion {
	for _, s := range inTrouble(f.current) {
		if ended := podproblem.LastTermination(s.Status); ended != nil && podproblem.IsOutOfMemory(ended) {
			return one(Finding{
				Severity: severityError, Where: whereContainer(s),
				What:     fmt.Sprintf("the container was killed because it exceeded its memory limit (OOMKilled), %s", restarts(s)),
				Evidence: evidence(f.lastOutput(s)), Do: "raise the memory limit in " + f.remedy.resources,
			}, showLog(s, hasPrevious(s)))
		}
	}
	return nothing()
}

// crashes reports containers that terminated and are not ready.
func crashes(f podFacts) []conclusion {
	for _, s := range inTrouble(f.current) {
		ended := podproblem.Ended(s.Status)
		if ended == nil || podproblem.IsOutOfMemory(ended) {
			continue
		}
		words := f.lastOutput(s)
		what := fmt.Sprintf("the container exited with code %d", ended.ExitCode)
		if s.Status.RestartCount > 0 {
			what = fmt.Sprintf("the container exits repeatedly with code %d, %s", ended.ExitCode, restarts(s))
		}
		if line := podproblem.LastLine(words); line != "" {
			what += ": " + oneLine(line, longestSentence)
		}
		return one(Finding{
			Severity: severityError, Where: whereContainer(s), What: what,
			Evidence: cmp.Or(evidence(words), endedEvidence(ended)), Do: crashRemedy(f, s, ended),
		}, showLog(s, hasPrevious(s)))
	}
	return nothing()
}

func restarts(s suspect) string {
	if s.Status.RestartCount == 1 {
		return "1 restart"
	}
	return fmt.Sprintf("%d restarts", s.Status.RestartCount)
}

func endedEvidence(ended *corev1.ContainerStateTerminated) string {
	return fmt.Sprintf("%s, exit code %d, without a message", ended.Reason, ended.ExitCode)
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

// unreadyProcesses reports containers that run but do not become ready.
func unreadyProcesses(f podFacts) []conclusion {
	for _, s := range inTrouble(f.current) {
		unhealthy := f.eventOf("Pod", s.Pod.Name, "Unhealthy", "ProbeWarning")
		if s.Status.State.Running == nil || unhealthy == nil {
			continue
		}
		return []conclusion{{
			Finding: Finding{
				Severity: severityError, Where: whereContainer(s),
				What:     "the container is running but not ready: " + oneLine(unhealthy.Message, longestSentence),
				Evidence: evidence(cmp.Or(f.logOf(s, false), unhealthy.Message)), Do: "check in its log what it waits for",
			},
			symptom: true, next: []Next{showLog(s, false)},
		}}
	}
	return nothing()
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
	return nothing()
}
