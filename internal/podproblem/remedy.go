package podproblem

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Remedy returns what to do about the problem, as a part of a sentence. place is where the pod is
// configured, for example "the spec".
func (p *Problem) Remedy(place string) string {
	switch p.Kind {
	case ImagePull:
		return p.PullCause().Remedy("the image in " + place)
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
