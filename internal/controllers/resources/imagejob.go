package resources

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// CoderVersionCommand is the command of ImageJob if the spec names no other program.
const CoderVersionCommand = coderProgram + " version"

const (
	imageJobRetries        = 1
	imageJobDeadline int64 = 900
	imageJobTTL      int32 = 600
	imageJobPodName        = coderv1alpha1.ControlPlaneName + "-image"
)

// ImageJob returns a Job that runs "coder version" in the image of the spec. It succeeds if a node can pull the image and start
// its program, which serves nobody. The pod is for the same nodes as that of coderd, with the same user, pull secrets and
// ServiceAccount, which may have pull secrets too. It gets no environment, volumes and init containers, and so no secret. Its
// requests are small, because the old pods still run.
func ImageJob(cp *coderv1alpha1.CoderControlPlane, w Workload, name string) *batchv1.Job {
	w.HeldImage = ""
	pod, container := taskPod(cp, w)
	pod.InitContainers, pod.Volumes, pod.ShareProcessNamespace = nil, nil, nil
	container.Command, container.Args = subcommand(container, "version"), nil
	container.Env, container.EnvFrom, container.VolumeMounts, container.VolumeDevices = nil, nil, nil, nil
	container.Resources = databaseResources(nil)
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	pod.Containers = []corev1.Container{container}
	labels := merged(coderv1alpha1.ControlPlaneLabels(cp.Name), map[string]string{coderv1alpha1.LabelName: imageJobPodName})
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cp.Namespace, Labels: labels},
		Spec: batchv1.JobSpec{
			BackoffLimit:            ptr.To[int32](imageJobRetries),
			ActiveDeadlineSeconds:   ptr.To(imageJobDeadline),
			TTLSecondsAfterFinished: ptr.To(imageJobTTL),
			PodFailurePolicy:        &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{disruptionIsNoFailure()}},
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}
