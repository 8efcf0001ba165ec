package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/kube/podproblem"
)

const (
	mostPods        = 20
	mostReplicaSets = 50
	// revisionAnnotation is what the Deployment controller counts revisions in.
	revisionAnnotation = "deployment.kubernetes.io/revision"
)

// endedWell says of an init container that it did what it is for.
func endedWell(pod *corev1.Pod, status *corev1.ContainerStatus) bool {
	return status.State.Terminated != nil && status.State.Terminated.ExitCode == 0 &&
		slices.ContainsFunc(pod.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == status.Name })
}

// inTrouble are the containers that are not ready, of the pods that matter.
func inTrouble(all []corev1.Pod) []suspect {
	var found []suspect
	for i := range all {
		for _, status := range podproblem.Containers(&all[i]) {
			if !status.Ready && !endedWell(&all[i], &status) {
				found = append(found, suspect{&all[i], &status})
			}
		}
	}
	return found
}

// running are the containers that run, of the pods that matter.
func running(all []corev1.Pod) []suspect {
	var found []suspect
	for i := range all {
		for _, status := range all[i].Status.ContainerStatuses {
			if status.State.Running != nil {
				found = append(found, suspect{&all[i], &status})
			}
		}
	}
	return found
}

func isEnding(pod *corev1.Pod) bool { return !pod.DeletionTimestamp.IsZero() }

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// newestReplicaSet is that of the newest revision of a Deployment, or nil.
func newestReplicaSet(sets []appsv1.ReplicaSet) *appsv1.ReplicaSet {
	var newest *appsv1.ReplicaSet
	highest := -1
	for i := range sets {
		revision, err := strconv.Atoi(sets[i].Annotations[revisionAnnotation])
		if err != nil {
			revision = 0
		}
		if revision > highest {
			newest, highest = &sets[i], revision
		}
	}
	return newest
}

// byRevision parts the pods that are not ending into those of the newest revision
// and the others. Where the newest revision is not known, all are of it.
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

// describePods tells of each pod in one line, those that are not ready first.
func describePods(all []corev1.Pod) []Pod {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(rank(isReady(&a)), rank(isReady(&b))), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
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

// stateOf is why a pod is not ready, in the words of Kubernetes.
func stateOf(pod *corev1.Pod) string {
	if isEnding(pod) {
		return "Terminating"
	}
	for _, s := range inTrouble([]corev1.Pod{*pod}) {
		switch {
		case s.status.State.Waiting != nil && s.status.State.Waiting.Reason != "":
			return s.status.State.Waiting.Reason
		case s.status.State.Terminated != nil:
			return s.status.State.Terminated.Reason
		}
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return c.Reason
	}
	return pod.Status.Reason
}
