package controlplane

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
	"github.com/coder-k8s/coder-k8s/internal/controllers/controlplane/resources"
)

// revisionAnnotation is what the Deployment controller counts revisions in.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// podTrouble says why the pods of the newest revision are not ready, or nil where
// nothing is wrong yet. It reads pods and logs from the API server.
func (r *Reconciler) podTrouble(ctx context.Context, s *scope) (*problem, error) {
	pods, err := r.newestPods(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, look := range []func(*corev1.Pod) *problem{configTrouble, imageTrouble} {
		for i := range pods {
			if found := look(&pods[i]); found != nil {
				return found, nil
			}
		}
	}
	if !resources.DatabaseConfigured(s.cp, s.inputs) {
		return &problem{coderv1alpha1.ReasonDatabaseMissing, "the spec names no database, and the one inside Coder does not run in a container: " +
			"set CODER_PG_CONNECTION_URL in spec.extraEnv (from a Secret), or bring it with spec.envFrom"}, nil
	}
	for i := range pods {
		if found := r.processTrouble(ctx, s, &pods[i]); found != nil {
			return found, nil
		}
	}
	for i := range pods {
		if found := schedulingTrouble(&pods[i]); found != nil {
			return found, nil
		}
	}
	return refusedPods(s.deployment), nil
}

// newestPods are the pods of the newest revision, oldest first, without those
// that are ending.
func (r *Reconciler) newestPods(ctx context.Context, s *scope) ([]corev1.Pod, error) {
	ours := []client.ListOption{client.InNamespace(s.cp.Namespace), client.MatchingLabels(resources.Labels(s.cp))}
	sets := &appsv1.ReplicaSetList{}
	if err := r.live.List(ctx, sets, ours...); err != nil {
		return nil, fmt.Errorf("listing replica sets: %w", err)
	}
	newest := newestReplicaSet(sets.Items, s.deployment)
	if newest == nil {
		return nil, nil
	}
	list := &corev1.PodList{}
	if err := r.live.List(ctx, list, ours...); err != nil {
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
func configTrouble(pod *corev1.Pod) *problem {
	for _, status := range allContainers(pod) {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		switch waiting.Reason {
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return &problem{coderv1alpha1.ReasonContainerConfigInvalid,
				fmt.Sprintf("container %q cannot be made: %s", status.Name, clipped(redact(oneLine(waiting.Message), nil)))}
		}
	}
	return nil
}

// imageTrouble is an image that a node cannot fetch.
func imageTrouble(pod *corev1.Pod) *problem {
	for _, status := range allContainers(pod) {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		switch waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
			"RegistryUnavailable", "SignatureValidationFailed":
			return &problem{coderv1alpha1.ReasonImagePullFailed, fmt.Sprintf(
				"image %q of container %q cannot be fetched%s; check spec.image, spec.imagePullPolicy and spec.imagePullSecrets",
				imageOf(pod, status.Name), status.Name, pullCause(waiting))}
		}
	}
	return nil
}

// pullCauses are what container runtimes say, and what a person should read. The
// texts of runtime and kubelet change from try to try.
var pullCauses = []struct {
	pattern *regexp.Regexp
	cause   string
}{
	{regexp.MustCompile(`(?i)never pull|ErrImageNeverPull`), "it is not on the node, and the pull policy is Never"},
	{regexp.MustCompile(`(?i)InvalidImageName|invalid reference format|couldn't parse image`), "that is not the name of an image"},
	{regexp.MustCompile(`(?i)unauthorized|authentication required|denied|forbidden|no basic auth`), "the registry refuses access, or has no such image"},
	{regexp.MustCompile(`(?i)not found|manifest unknown|does not exist`), "the registry has no such image"},
	{regexp.MustCompile(`(?i)no such host|server misbehaving`), "the registry's name does not resolve"},
	{regexp.MustCompile(`(?i)x509|certificate`), "the registry's certificate is not trusted"},
	{regexp.MustCompile(`(?i)timeout|timed out|refused|unreachable|no route`), "the registry does not answer"},
}

func pullCause(waiting *corev1.ContainerStateWaiting) string {
	for _, known := range pullCauses {
		if known.pattern.MatchString(waiting.Reason + " " + waiting.Message) {
			return ": " + known.cause
		}
	}
	return ""
}

// schedulingTrouble is a pod that no node takes.
func schedulingTrouble(pod *corev1.Pod) *problem {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
			condition.Reason == corev1.PodReasonUnschedulable {
			return &problem{coderv1alpha1.ReasonUnschedulable, "no node takes the pod: " + clipped(oneLine(condition.Message))}
		}
	}
	return nil
}

// generatedName is the part of a refusal that names the pod.
var generatedName = regexp.MustCompile(`pods "[^"]*" is forbidden: `)

// refusedPods is what the Deployment says where the API server takes no pods.
func refusedPods(d *appsv1.Deployment) *problem {
	failure := deploymentCondition(d, appsv1.DeploymentReplicaFailure)
	if failure == nil || failure.Status != corev1.ConditionTrue {
		return nil
	}
	message := clipped(oneLine(generatedName.ReplaceAllString(failure.Message, "")))
	return &problem{coderv1alpha1.ReasonPodsRefused, "the API server refuses the pods: " + message}
}

func allContainers(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

func imageOf(pod *corev1.Pod, container string) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}
