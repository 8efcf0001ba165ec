package podproblem

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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
	Message   string
	Container string
	Image     string
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

// FindImagePull returns the problem of an image that a node cannot pull.
func FindImagePull(pod *corev1.Pod) *Problem {
	p := findWaiting(pod, ImagePull, "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable", "SignatureValidationFailed")
	if p == nil {
		return nil
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == p.Container {
			p.Image = c.Image
		}
	}
	return p
}

// FindConfig returns the problem of a container that the kubelet cannot create.
func FindConfig(pod *corev1.Pod) *Problem {
	return findWaiting(pod, Config, "CreateContainerConfigError", "CreateContainerError", "RunContainerError")
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

// findWaiting returns the problem of the first container that waits for one of these reasons.
func findWaiting(pod *corev1.Pod, kind Kind, reasons ...string) *Problem {
	for _, status := range Containers(pod) {
		if waiting := status.State.Waiting; waiting != nil && slices.Contains(reasons, waiting.Reason) {
			return &Problem{Kind: kind, Reason: waiting.Reason, Message: waiting.Message, Container: status.Name}
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

func kindOfEvent(reason string) Kind {
	switch reason {
	case "FailedMount", "FailedAttachVolume", "FailedMapVolume":
		return Volume
	case "FailedCreatePodSandBox":
		return Sandbox
	}
	return ""
}

// IsStuck reports whether a pod has a node and none of its containers was created.
func IsStuck(pod *corev1.Pod) bool {
	created := func(s corev1.ContainerStatus) bool {
		return s.State.Waiting == nil || s.LastTerminationState.Terminated != nil ||
			s.State.Waiting.Reason != "ContainerCreating" && s.State.Waiting.Reason != "PodInitializing"
	}
	return pod.Status.Phase == corev1.PodPending && pod.Spec.NodeName != "" && !slices.ContainsFunc(Containers(pod), created)
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
		why := p.Message
		if _, rest, found := strings.Cut(why, "is forbidden: "); found {
			why = rest // Without the name of the pod, which differs in each attempt.
		}
		return "the API server rejects the pods" + withColon(clean(why))
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

// Remedy returns what to do about the problem, as a part of a sentence. place is where the pod is
// configured, for example "the spec".
func (p *Problem) Remedy(place string) string {
	switch p.Kind {
	case ImagePull:
		_, remedy := p.pull()
		return strings.ReplaceAll(remedy, "IMAGE", "the image in "+place)
	case Config:
		return "create the Secret, ConfigMap or key that is missing, or correct the reference to it in " + place
	case Unschedulable:
		return schedulingRemedy(strings.ToLower(p.Message), place)
	case Volume:
		return "check that the Secret, ConfigMap or PersistentVolumeClaim exists and can be attached to the node, or correct the volumes in " + place
	case Sandbox:
		return "check the network plugin and the container runtime of the node"
	case OutOfMemory:
		return "raise the memory limit in " + place
	case Evicted:
		return "free the resource that the node is short of, or raise the requests in " + place
	case NodeLost:
		return "bring the node back, or delete it (kubectl delete node " + p.Node + ") if it is gone for good; after about five minutes " +
			"Kubernetes replaces a pod of a Deployment on another node, unless a volume of the pod stays on this one"
	case Refused:
		return refusalRemedy(p.Message, place)
	}
	if p.ExitCode == 126 || p.ExitCode == 127 {
		return "correct the command in " + place + ": the image has no such program, or cannot run it"
	}
	return "fix what its last log lines report, in " + place + " or in what it refers to"
}

func schedulingRemedy(message, place string) string {
	has := func(word string) bool { return strings.Contains(message, word) }
	switch {
	case has("volume"):
		return "check that the PersistentVolumeClaim exists and is bound (its StorageClass, its size, its zone), or correct the volumes in " + place
	case has("insufficient"):
		return "add nodes, free capacity on them, or lower the requests in " + place
	default:
		return "check which nodes fit, and correct the requests, the node selector, the affinity or the tolerations in " + place
	}
}

func refusalRemedy(message, place string) string {
	has := func(words string) bool { return strings.Contains(message, words) }
	switch {
	case has("exceeded quota"), has("must specify"):
		return "raise the ResourceQuota of the namespace, remove other pods, or set or lower the requests and limits in " + place
	case has("violates PodSecurity"):
		return "correct the security context in " + place + ", or allow such pods in the namespace"
	case has("LimitRange"), has("per Container"), has("per Pod"):
		return "bring the requests and limits in " + place + " within the LimitRange of the namespace"
	default:
		return "correct " + place + ", or what the message names"
	}
}

// FindRefusedBySet returns the problem of a ReplicaSet whose pods the API server rejects.
func FindRefusedBySet(set *appsv1.ReplicaSet) *Problem {
	for i := range set.Status.Conditions {
		if c := &set.Status.Conditions[i]; c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return &Problem{Kind: Refused, Reason: c.Reason, Message: c.Message}
		}
	}
	return nil
}

// PullCause describes why an image cannot be pulled, as far as the runtime reports it.
type PullCause string

// PullCauseUnknown means that the runtime reports no cause.
const PullCauseUnknown PullCause = ""

// pullCauses are ordered. The more certain signs come first. The messages differ between
// runtimes. IMAGE in a remedy is replaced by the place where the image is configured.
var pullCauses = []struct {
	cause         PullCause
	remedy        string
	signs, unless []string
}{
	{
		"it is not on the node, and the pull policy is Never", "load it onto the node, or change the pull policy beside IMAGE",
		[]string{"errimageneverpull", "never pull"}, nil,
	},
	{"the image name is not valid", "correct IMAGE", []string{"invalidimagename", "invalid reference format", "couldn't parse image"}, nil},
	{
		"the name of the registry does not resolve", "correct the registry in IMAGE, or the DNS of the node",
		[]string{"no such host", "server misbehaving", "name or service not known"}, nil,
	},
	{
		"the registry has no such image or tag", "correct the name or the tag in IMAGE", []string{"not found", "manifest unknown", "does not exist"},
		[]string{"access denied", "unauthorized", "authorization failed"},
	},
	{
		"the registry refuses access, or has no such image", "correct IMAGE, or give the pod pull secrets for the registry",
		[]string{"unauthorized", "authentication required", "denied", "forbidden", "no basic auth", "authorization failed"}, nil,
	},
	{"the certificate of the registry is not trusted", "have the node trust it, or correct IMAGE", []string{"x509", "certificate"}, nil},
	{
		"the rate limit of the registry is exceeded", "wait, log in to the registry with pull secrets, or use a mirror",
		[]string{"too many requests", "toomanyrequests", "rate limit"}, nil,
	},
	{
		"the registry does not respond", "check that the node can reach the registry, or correct it in IMAGE",
		[]string{"timeout", "timed out", "refused", "unreachable", "no route", "eof"}, nil,
	},
}

// PullCause returns why the image cannot be pulled.
func (p *Problem) PullCause() PullCause {
	cause, _ := p.pull()
	return cause
}

// pull returns why the image cannot be pulled, and what to do.
func (p *Problem) pull() (cause PullCause, remedy string) {
	said := strings.ToLower(p.Reason + " " + p.Message)
	has := func(signs []string) bool {
		return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(said, sign) })
	}
	for _, known := range pullCauses {
		if has(known.signs) && !has(known.unless) {
			return known.cause, known.remedy
		}
	}
	return PullCauseUnknown, "check the Events of the pod, and correct IMAGE"
}

// EventTime returns the time of the last occurrence. The field with that time depends on the
// client that created the Event.
func EventTime(e *corev1.Event) time.Time {
	newest := e.CreationTimestamp.Time
	for _, at := range []time.Time{e.FirstTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time} {
		if at.After(newest) {
			newest = at
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(newest) {
		newest = e.Series.LastObservedTime.Time
	}
	return newest
}

// EventCount returns the number of occurrences, at least 1.
func EventCount(e *corev1.Event) int32 {
	count := max(e.Count, 1)
	if e.Series != nil {
		count = max(count, e.Series.Count)
	}
	return count
}

// CompareEvents sorts Events by EventTime, newest first, and then by name.
func CompareEvents(a, b corev1.Event) int {
	return cmp.Or(EventTime(&b).Compare(EventTime(&a)), cmp.Compare(a.Name, b.Name))
}

// RevisionAnnotation is the annotation in which the Deployment controller counts revisions.
const RevisionAnnotation = "deployment.kubernetes.io/revision"

// NewestReplicaSet returns the ReplicaSet with the newest revision, or nil.
func NewestReplicaSet(sets []appsv1.ReplicaSet) *appsv1.ReplicaSet {
	var newest *appsv1.ReplicaSet
	highest := -1
	for i := range sets {
		revision, err := strconv.Atoi(sets[i].Annotations[RevisionAnnotation])
		if err != nil {
			revision = 0
		}
		if revision > highest {
			newest, highest = &sets[i], revision
		}
	}
	return newest
}

// JobEnd returns how a Job ended: Complete or Failed. It returns an empty string while the Job runs.
func JobEnd(job *batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return c.Type
		}
	}
	return ""
}
