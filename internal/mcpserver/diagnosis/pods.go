package diagnosis

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

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

// stateOf returns why a pod is not ready, as a reason of Kubernetes.
func stateOf(pod *corev1.Pod) string {
	if isEnding(pod) {
		return "Terminating"
	}
	for _, s := range inTrouble([]corev1.Pod{*pod}) {
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
