package workload

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
	"github.com/coder-k8s/coder-k8s/internal/kube/podproblem"
)

// revisionAnnotation is what the Deployment controller counts revisions in.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// podTrouble says why the pods of the newest revision are not ready, or nil where
// nothing is wrong yet. It reads pods and logs from the API server.
func (t *Toolkit) podTrouble(ctx context.Context, p *Pass) (*Problem, error) {
	if len(p.Missing) > 0 {
		return &Problem{p.Missing[0].Reason, sentences(p.Missing)}, nil
	}
	pods, err := t.newestPods(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, look := range []func(*corev1.Pod) *Problem{configTrouble, imageTrouble} {
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
	for _, look := range []func(*corev1.Pod) *Problem{process, schedulingTrouble, evictionTrouble} {
		if found := firstTrouble(pods, look); found != nil {
			return found, nil
		}
	}
	return refusedPods(p.Deployment), nil
}

func firstTrouble(pods []corev1.Pod, look func(*corev1.Pod) *Problem) *Problem {
	for i := range pods {
		if found := look(&pods[i]); found != nil {
			return found
		}
	}
	return nil
}

// newestPods are the pods of the newest revision, oldest first, without those
// that are ending.
func (t *Toolkit) newestPods(ctx context.Context, p *Pass) ([]corev1.Pod, error) {
	ours := []client.ListOption{client.InNamespace(p.Workload.Namespace), client.MatchingLabels(resources.PodLabels(p.Workload))}
	sets := &appsv1.ReplicaSetList{}
	if err := t.Live.List(ctx, sets, ours...); err != nil {
		return nil, fmt.Errorf("listing replica sets: %w", err)
	}
	newest := newestReplicaSet(sets.Items, p.Deployment)
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

func newestReplicaSet(sets []appsv1.ReplicaSet, d *appsv1.Deployment) *appsv1.ReplicaSet {
	var newest *appsv1.ReplicaSet
	highest := -1
	for i := range sets {
		revision, err := strconv.Atoi(sets[i].Annotations[revisionAnnotation])
		if err != nil {
			revision = 0
		}
		if metav1.IsControlledBy(&sets[i], d) && revision > highest {
			newest, highest = &sets[i], revision
		}
	}
	return newest
}

// configTrouble is a Secret, ConfigMap or key that does not exist, or another
// part of the spec that the kubelet cannot make a container of.
func configTrouble(pod *corev1.Pod) *Problem {
	found := podproblem.FindConfig(pod)
	if found == nil {
		return nil
	}
	return &Problem{coderv1alpha1.ReasonContainerConfigInvalid,
		fmt.Sprintf("container %q cannot be made: %s", found.Container, Clipped(Redact(OneLine(found.Message))))}
}

// imageTrouble is an image that a node cannot fetch.
func imageTrouble(pod *corev1.Pod) *Problem {
	found := podproblem.FindImagePull(pod)
	if found == nil {
		return nil
	}
	cause := found.PullCause().String()
	if cause != "" {
		cause = ": " + cause
	}
	return &Problem{coderv1alpha1.ReasonImagePullFailed, fmt.Sprintf(
		"image %q of container %q cannot be fetched%s; check spec.image, spec.imagePullPolicy and spec.imagePullSecrets",
		found.Image, found.Container, cause)}
}

// schedulingTrouble is a pod that no node takes.
func schedulingTrouble(pod *corev1.Pod) *Problem {
	found := podproblem.FindUnschedulable(pod)
	if found == nil {
		return nil
	}
	return &Problem{coderv1alpha1.ReasonUnschedulable, "no node takes the pod: " + Clipped(OneLine(found.Message))}
}

// evictionTrouble is a pod that its node ended, for example because its disk is full.
func evictionTrouble(pod *corev1.Pod) *Problem {
	found := podproblem.FindEvicted(pod)
	if found == nil {
		return nil
	}
	return &Problem{coderv1alpha1.ReasonPodsRefused, fmt.Sprintf("the node ended the pod (%s): %s",
		found.Reason, Clipped(OneLine(found.Message)))}
}

// generatedName is the part of a refusal that names the pod.
var generatedName = regexp.MustCompile(`pods "[^"]*" is forbidden: `)

// refusedPods is what the Deployment says where the API server takes no pods.
func refusedPods(d *appsv1.Deployment) *Problem {
	failure := deploymentCondition(d, appsv1.DeploymentReplicaFailure)
	if failure == nil || failure.Status != corev1.ConditionTrue {
		return nil
	}
	message := Clipped(OneLine(generatedName.ReplaceAllString(failure.Message, "")))
	return &Problem{coderv1alpha1.ReasonPodsRefused, "the API server refuses the pods: " + message}
}
