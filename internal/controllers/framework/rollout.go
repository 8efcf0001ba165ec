package framework

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/ensure"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
	"github.com/coder-k8s/coder-k8s/internal/podproblem"
)

// deadlineExceeded is the reason of the condition Progressing of a Deployment whose rollout
// exceeded its deadline.
const deadlineExceeded = "ProgressDeadlineExceeded"

// WatchRollout looks for the reason why pods are not ready. The controller watches the Deployment,
// but not its pods, so the step asks for another pass after PollInterval.
func (t *Toolkit) WatchRollout(ctx context.Context, p *Pass) error {
	if p.Available() {
		return nil
	}
	// As long as Kubernetes has not observed the new revision, it has no pods to inspect.
	if p.Deployment.Status.ObservedGeneration >= p.Deployment.Generation {
		found, err := t.podTrouble(ctx, p)
		if err != nil {
			return err
		}
		p.Trouble = found
	}
	return ensure.Waits(coderv1alpha1.ReasonProgressing, PollInterval, "%s", rolloutProgress(p.Deployment, p.Wanted()))
}

// RolledOut reports whether all pods are of the newest revision.
func RolledOut(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas <= d.Status.UpdatedReplicas
}

// Serves reports whether pods of the newest revision are ready, and no others exist.
func Serves(d *appsv1.Deployment) bool { return RolledOut(d) && d.Status.ReadyReplicas > 0 }

func rolloutProgress(d *appsv1.Deployment, wanted int32) string {
	status := d.Status
	if status.Replicas > status.UpdatedReplicas && status.UpdatedReplicas >= wanted {
		return "pods of an earlier revision still exist"
	}
	return fmt.Sprintf("%d of %d pods are ready", min(status.ReadyReplicas, wanted), wanted)
}

// rolloutExpired reports whether the rollout exceeded its progress deadline. Until Kubernetes has
// observed the new revision, the status is about the previous one.
func rolloutExpired(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == deadlineExceeded
	})
}

// ResumeOrphaned starts the pods of a Deployment that stays without its owner, or whose owner has lost its control plane, if the
// operator has stopped them. It does this once, so that the number of pods is the user's afterwards; the annotation records it.
func (t *Toolkit) ResumeOrphaned(ctx context.Context, p *Pass) error {
	d := &appsv1.Deployment{}
	if err := t.Live.Get(ctx, client.ObjectKey{Namespace: p.Workload.Namespace, Name: p.Workload.Name}, d); err != nil {
		return client.IgnoreNotFound(err)
	}
	owner, wanted := metav1.GetControllerOf(d), resources.SpecReplicas(p.Workload)
	if owner != nil && owner.UID != p.Object.GetUID() || wanted == 0 || ptr.Deref(d.Spec.Replicas, 1) > 0 ||
		slices.Contains([]string{"", "0"}, d.Annotations[coderv1alpha1.AnnotationReplicas]) || replicasOwnedByOthers(d) {
		return nil
	}
	return t.LeaveDeployment(ctx, d, wanted)
}

// LeaveDeployment scales a Deployment for the last time, and removes the annotation that records that the operator does so.
func (t *Toolkit) LeaveDeployment(ctx context.Context, d *appsv1.Deployment, replicas int32) error {
	base := d.DeepCopy()
	delete(d.Annotations, coderv1alpha1.AnnotationReplicas)
	d.Spec.Replicas = &replicas
	if err := t.Client.Patch(ctx, d, LockedPatch(base)); err != nil {
		return Settled(fmt.Errorf("scaling Deployment %q to %d: %w", d.Name, replicas, err))
	}
	return nil
}

func replicasOwnedByOthers(d *appsv1.Deployment) bool {
	for _, entry := range d.ManagedFields {
		if entry.FieldsV1 == nil || (entry.Manager == fieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply) {
			continue
		}
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		if _, owns := fields.Spec["f:replicas"]; owns {
			return true
		}
	}
	return false
}

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
	// The states of containers on a lost node are old.
	lost := troubleOf(podproblem.FindNodeLost, coderv1alpha1.ReasonNodeLost)
	config := troubleOf(podproblem.FindConfig, coderv1alpha1.ReasonContainerConfigInvalid)
	for _, look := range []func(*corev1.Pod) *Problem{lost, config, imageTrouble} {
		if found := firstTrouble(pods, look); found != nil {
			return found, nil
		}
	}
	if p.Hooks.Unconfigured != nil {
		if found := p.Hooks.Unconfigured(); found != nil {
			return found, nil
		}
	}
	process := func(pod *corev1.Pod) *Problem {
		for _, unready := range podproblem.FindUnready(pod) {
			if found := t.containerTrouble(ctx, p, pod, unready.Status); found != nil {
				return found
			}
		}
		return nil
	}
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
	return t.PodsWith(ctx, p.Workload.Namespace, p.PodLabels())
}

// PodsWith is RunningPods for the pods with given labels.
func (t *Toolkit) PodsWith(ctx context.Context, namespace string, selected map[string]string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := t.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels(selected)); err != nil {
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
	slices.SortFunc(pods, oldestFirst)
	return pods, nil
}

func oldestFirst(a, b corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
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
