package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// podTrouble returns the reason why the pods of the newest revision are not ready, or nil if
// nothing is wrong yet. It reads pods and logs from the API server.
func (t *Toolkit) podTrouble(ctx context.Context, p *Pass) (*Problem, error) {
	if len(p.Missing) > 0 {
		return &Problem{p.Missing[0].Reason, sentences(p.Missing)}, nil
	}
	pods, err := t.newestPods(ctx, p)
	if err != nil {
		return nil, err
	}
	config := troubleOf(podproblem.FindConfig, coderv1alpha1.ReasonContainerConfigInvalid)
	for _, look := range []func(*corev1.Pod) *Problem{config, imageTrouble} {
		if found := firstTrouble(pods, look); found != nil {
			return found, nil
		}
	}
	if p.Hooks.Unconfigured != nil {
		if found := p.Hooks.Unconfigured(); found != nil {
			return found, nil
		}
	}
	process := func(pod *corev1.Pod) *Problem { return t.processTrouble(ctx, p, pod) }
	scheduling := troubleOf(podproblem.FindUnschedulable, coderv1alpha1.ReasonUnschedulable)
	eviction := troubleOf(podproblem.FindEvicted, coderv1alpha1.ReasonPodsRefused)
	for _, look := range []func(*corev1.Pod) *Problem{process, scheduling, eviction} {
		if found := firstTrouble(pods, look); found != nil {
			return found, nil
		}
	}
	if found := podproblem.FindRefused(p.Deployment); found != nil {
		return &Problem{coderv1alpha1.ReasonPodsRefused, describe(found)}, nil
	}
	return nil, nil
}

// RunningPods returns the pods that have not ended, without using the cache. Pods that are terminating
// are among them.
func (t *Toolkit) RunningPods(ctx context.Context, p *Pass) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := t.Live.List(ctx, list, client.InNamespace(p.Workload.Namespace), client.MatchingLabels(p.PodLabels())); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	}), nil
}

func firstTrouble(pods []corev1.Pod, look func(*corev1.Pod) *Problem) *Problem {
	for i := range pods {
		if found := look(&pods[i]); found != nil {
			return found
		}
	}
	return nil
}

// newestPods returns the pods of the newest revision, oldest first. Pods that are being deleted are
// left out.
func (t *Toolkit) newestPods(ctx context.Context, p *Pass) ([]corev1.Pod, error) {
	ours := []client.ListOption{client.InNamespace(p.Workload.Namespace), client.MatchingLabels(resources.PodLabels(p.Workload))}
	sets := &appsv1.ReplicaSetList{}
	if err := t.Live.List(ctx, sets, ours...); err != nil {
		return nil, fmt.Errorf("listing replica sets: %w", err)
	}
	newest := podproblem.NewestReplicaSet(slices.DeleteFunc(sets.Items, func(set appsv1.ReplicaSet) bool {
		return !metav1.IsControlledBy(&set, p.Deployment)
	}))
	if newest == nil {
		return nil, nil
	}
	list := &corev1.PodList{}
	if err := t.Live.List(ctx, list, ours...); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return !metav1.IsControlledBy(&pod, newest) || !pod.DeletionTimestamp.IsZero()
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

// troubleOf returns a function that reports what find finds, with a reason of this API and in the
// words that all components use.
func troubleOf(find func(*corev1.Pod) *podproblem.Problem, reason string) func(*corev1.Pod) *Problem {
	return func(pod *corev1.Pod) *Problem {
		if found := find(pod); found != nil {
			return &Problem{reason, describe(found)}
		}
		return nil
	}
}

// describe returns what keeps a pod from running, and what to do.
func describe(found *podproblem.Problem) string {
	return found.Sentence(Quote) + "; " + found.Remedy("the spec")
}

// imageTrouble reports an image that a node cannot pull. It leaves out the reason of the kubelet,
// because that changes from attempt to attempt.
func imageTrouble(pod *corev1.Pod) *Problem {
	found := podproblem.FindImagePull(pod)
	if found == nil {
		return nil
	}
	cause := string(found.PullCause())
	if cause != "" {
		cause = ": " + cause
	}
	return &Problem{coderv1alpha1.ReasonImagePullFailed, fmt.Sprintf(
		"image %q of container %q cannot be pulled%s; check spec.image, spec.imagePullPolicy and spec.imagePullSecrets",
		found.Image, found.Container, cause)}
}
