package resources

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// CoderVersionCommand is the command of ImageJob if the spec names no other program.
const CoderVersionCommand = coderProgram + " version"

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
	job := newJob(cp, name, coderv1alpha1.ControlPlaneName+"-image", pod)
	job.Spec.BackoffLimit, job.Spec.ActiveDeadlineSeconds = ptr.To[int32](1), ptr.To[int64](900)
	job.Spec.TTLSecondsAfterFinished = ptr.To[int32](600)
	job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{disruptionIsNoFailure()}}
	return job
}
