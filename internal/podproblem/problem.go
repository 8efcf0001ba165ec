package podproblem

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Kind is the kind of a problem.
type Kind string

// The kinds of problems.
const (
	ImagePull     Kind = "ImagePull"
	Config        Kind = "Config"
	Unschedulable Kind = "Unschedulable"
	Volume        Kind = "Volume"
	Sandbox       Kind = "Sandbox"
	OutOfMemory   Kind = "OutOfMemory"
	Crash         Kind = "Crash"
	Evicted       Kind = "Evicted"
	Refused       Kind = "Refused"
	NodeLost      Kind = "NodeLost"
)

// Problem is the reason why a pod does not run.
type Problem struct {
	Kind Kind
	// Reason is the reason that Kubernetes reports, for example ImagePullBackOff.
	Reason string
	// Message is the message that Kubernetes reports. It changes from attempt to attempt, and may
	// contain any text of a container runtime or a registry.
	Message string
	// Container is the name of the container that has the problem, if any.
	Container string
	// Image is the image that cannot be pulled.
	Image string
	// Node is the name of the node, for NodeLost.
	Node string
	// ExitCode is the exit code of the container, for Crash and OutOfMemory.
	ExitCode int32
}

// Find returns the first problem of a pod, in the order of its startup, or nil. It does not find a
// volume that cannot be mounted or a sandbox that cannot be created, because only Events report
// these: see FromEvents.
func Find(pod *corev1.Pod) *Problem {
	for _, look := range []func(*corev1.Pod) *Problem{FindNodeLost, FindUnschedulable, FindEvicted, FindImagePull, FindConfig, FindCrash} {
		if p := look(pod); p != nil {
			return p
		}
	}
	return nil
}

// FindNodeLost returns the problem of a pod whose node does not report any more. Then kube-controller-manager sets the
// condition Ready to false and leaves everything else as the kubelet reported it last. So this needs no permission to read
// nodes.
func FindNodeLost(pod *corev1.Pod) *Problem {
	lost, containersReady := false, false
	for _, c := range pod.Status.Conditions {
		switch c.Type {
		case corev1.PodReady:
			// The kubelet gives a reason, for example for a readiness gate.
			lost = c.Status == corev1.ConditionFalse && c.Reason == ""
		case corev1.ContainersReady:
			containersReady = c.Status == corev1.ConditionTrue
		}
	}
	if !lost || !containersReady || pod.Spec.NodeName == "" {
		return nil
	}
	return &Problem{Kind: NodeLost, Reason: "NodeNotReady", Node: pod.Spec.NodeName}
}

// FindUnschedulable returns the problem of a pod that no node accepts.
func FindUnschedulable(pod *corev1.Pod) *Problem {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return &Problem{Kind: Unschedulable, Reason: c.Reason, Message: c.Message}
		}
	}
	return nil
}

// FindEvicted returns the problem of a pod that its node evicted or ended.
func FindEvicted(pod *corev1.Pod) *Problem {
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason == "" {
		return nil
	}
	return &Problem{Kind: Evicted, Reason: pod.Status.Reason, Message: pod.Status.Message}
}

// FindRefused returns the problem of a Deployment whose pods the API server rejects.
func FindRefused(d *appsv1.Deployment) *Problem {
	for i := range d.Status.Conditions {
		if c := &d.Status.Conditions[i]; c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return &Problem{Kind: Refused, Reason: c.Reason, Message: c.Message}
		}
	}
	return nil
}

// Refusal returns why the API server rejects a pod, without the pod's name, which differs in each
// attempt.
func Refusal(message string) string {
	if _, rest, found := strings.Cut(message, "is forbidden: "); found {
		return rest
	}
	return message
}

// FindImagePull returns the problem of an image that a node cannot pull.
func FindImagePull(pod *corev1.Pod) *Problem {
	return findWaiting(pod, IsImagePull, func(p *Problem) { p.Kind, p.Image = ImagePull, ImageOf(pod, p.Container) })
}

// FindConfig returns the problem of a container that the kubelet cannot create.
func FindConfig(pod *corev1.Pod) *Problem {
	return findWaiting(pod, IsConfig, func(p *Problem) { p.Kind = Config })
}

// FindCrash returns the problem of a container that exits repeatedly, or exited with an error and
// is not restarted. A pod that has completed has none.
func FindCrash(pod *corev1.Pod) *Problem {
	for _, status := range Containers(pod) {
		ended := LastTermination(&status)
		if ended == nil || status.State.Running != nil || ended.ExitCode == 0 && status.State.Waiting == nil {
			continue
		}
		p := &Problem{Kind: Crash, Reason: ended.Reason, Container: status.Name, ExitCode: ended.ExitCode}
		if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "CrashLoopBackOff" {
			p.Reason = waiting.Reason
		}
		if IsOutOfMemory(ended) {
			p.Kind, p.Reason = OutOfMemory, ended.Reason
		}
		return p
	}
	return nil
}

// IsImagePull reports whether a container waits for this reason because its image
// cannot be pulled.
func IsImagePull(reason string) bool {
	return slices.Contains([]string{
		"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable", "SignatureValidationFailed",
	}, reason)
}

// IsConfig reports whether a container waits for this reason because the kubelet
// cannot create it.
func IsConfig(reason string) bool {
	return slices.Contains([]string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}, reason)
}

func findWaiting(pod *corev1.Pod, is func(reason string) bool, complete func(*Problem)) *Problem {
	for _, status := range Containers(pod) {
		if waiting := status.State.Waiting; waiting != nil && is(waiting.Reason) {
			p := &Problem{Reason: waiting.Reason, Message: waiting.Message, Container: status.Name}
			complete(p)
			return p
		}
	}
	return nil
}

// FromEvents returns the problem that the newest of these Events about a pod reports, or nil. It is
// valid only while IsStuck returns true.
func FromEvents(events []corev1.Event) *Problem {
	var newest *corev1.Event
	for i := range events {
		e := &events[i]
		if kindOfEvent(e.Reason) != "" && (newest == nil || EventTime(newest).Before(EventTime(e))) {
			newest = e
		}
	}
	if newest == nil {
		return nil
	}
	return &Problem{Kind: kindOfEvent(newest.Reason), Reason: newest.Reason, Message: newest.Message}
}

// MountReasons returns the reasons of Events about volumes that FromEvents reads.
func MountReasons() []string { return []string{"FailedMount", "FailedAttachVolume", "FailedMapVolume"} }

// SandboxReasons returns the reasons of Events about pod sandboxes that FromEvents reads.
func SandboxReasons() []string { return []string{"FailedCreatePodSandBox"} }

func kindOfEvent(reason string) Kind {
	switch {
	case slices.Contains(MountReasons(), reason):
		return Volume
	case slices.Contains(SandboxReasons(), reason):
		return Sandbox
	default:
		return ""
	}
}

// IsStuck reports whether a pod has a node and none of its containers was created.
func IsStuck(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName != "" && !slices.ContainsFunc(Containers(pod), WasCreated)
}

// WasCreated reports whether a container was created.
func WasCreated(s corev1.ContainerStatus) bool {
	return s.State.Waiting == nil || s.LastTerminationState.Terminated != nil ||
		s.State.Waiting.Reason != "ContainerCreating" && s.State.Waiting.Reason != "PodInitializing"
}

// Containers returns the statuses of a pod's containers, init containers first.
func Containers(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// IsReady reports whether the condition Ready of a pod is true.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// LastTermination returns the last termination of a container, or nil.
func LastTermination(status *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if status.State.Terminated != nil {
		return status.State.Terminated
	}
	return status.LastTerminationState.Terminated
}

// Ended returns the last termination of a container that is not ready. It returns nil if the
// container never terminated, or completed successfully and runs again.
func Ended(status *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	ended := LastTermination(status)
	if ended == nil || ended.ExitCode == 0 && status.State.Running != nil {
		return nil
	}
	return ended
}

// After crashes restarts, with the kubelet's back-off about five minutes, a container does not recover by
// itself. The kubelet starts its back-off again after a run of backOffReset.
const (
	crashes      = 5
	backOffReset = 10 * time.Minute
)

// KeepsCrashing reports whether a container exits again and again soon after its start. The
// configuration of a pod never changes, so only a change of the spec can help.
func KeepsCrashing(status *corev1.ContainerStatus) bool {
	ended := Ended(status)
	return ended != nil && status.RestartCount >= crashes && ended.FinishedAt.Sub(ended.StartedAt.Time) < backOffReset
}

// IsOutOfMemory reports whether a container was killed because it exceeded its memory limit.
func IsOutOfMemory(ended *corev1.ContainerStateTerminated) bool { return ended.Reason == "OOMKilled" }

// Unready is a container that is not ready.
type Unready struct {
	Pod    *corev1.Pod
	Status *corev1.ContainerStatus
}

// FindUnready returns the containers of a pod that are not ready, except init containers that have
// completed.
func FindUnready(pod *corev1.Pod) []Unready {
	var found []Unready
	inits := len(pod.Status.InitContainerStatuses)
	for i, status := range Containers(pod) {
		ended := status.State.Terminated
		if !status.Ready && (i >= inits || ended == nil || ended.ExitCode != 0) {
			found = append(found, Unready{pod, &status})
		}
	}
	return found
}

// ImageOf returns the image of a container.
func ImageOf(pod *corev1.Pod, container string) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// Sentence describes the problem. It includes the message only for kinds whose message does not
// change from attempt to attempt. clean is applied to messages and to the name of the image.
func (p *Problem) Sentence(clean func(string) string) string {
	switch p.Kind {
	case ImagePull:
		return fmt.Sprintf("image %q of container %q cannot be pulled (%s)%s", clean(p.Image), p.Container, p.Reason, withColon(string(p.PullCause())))
	case Config:
		return fmt.Sprintf("container %q cannot be created (%s)%s", p.Container, p.Reason, withColon(clean(p.Message)))
	case Unschedulable:
		return fmt.Sprintf("no node accepts the pod (%s)%s", p.Reason, withColon(clean(p.Message)))
	case Volume:
		return fmt.Sprintf("a volume cannot be mounted (%s)%s", p.Reason, withColon(clean(p.Message)))
	case Sandbox:
		return fmt.Sprintf("the node cannot create the pod's sandbox (%s)%s", p.Reason, withColon(clean(p.Message)))
	case OutOfMemory:
		return fmt.Sprintf("container %q exceeded its memory limit (%s)", p.Container, p.Reason)
	case Crash:
		return fmt.Sprintf("container %q exited with code %d (%s)", p.Container, p.ExitCode, p.Reason)
	case Refused:
		return "the API server rejects the pods" + withColon(clean(Refusal(p.Message)))
	case NodeLost:
		return fmt.Sprintf("node %q, on which the pod runs, does not report any more (%s)", p.Node, p.Reason)
	case Evicted:
		return fmt.Sprintf("the node terminated the pod (%s)%s", p.Reason, withColon(clean(p.Message)))
	default:
		return p.Reason
	}
}

func withColon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
