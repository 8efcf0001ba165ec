package resources

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	adminJobSuffix = "-create-admin"

	// adminJobPodName is the value of the name label on the pods of the admin Job. It differs from
	// that of coderd's pods, so that the Service never sends requests to them.
	adminJobPodName = coderv1alpha1.ControlPlaneName + "-admin"
)

// AdminJob returns the Job that creates the operator's account in a Coder that already has users.
// It runs Coder's own command for that in the image of coderd, with the same environment and
// therefore the same database. Username, email and password come from the given Secret.
func AdminJob(cp *coderv1alpha1.CoderControlPlane, w Workload, credentialsSecret string) *batchv1.Job {
	pod, container := taskPod(cp, w)
	container.Command = subcommand(container, serverCommand, "create-admin-user")
	container.Args = argumentsOf(container.Args, flagDatabase, "--postgres-connection-auth")
	container.Env = Overlaid(container.Env, []corev1.EnvVar{
		FromSecret("CODER_USERNAME", credentialsSecret, coderv1alpha1.SecretKeyUsername),
		FromSecret("CODER_EMAIL", credentialsSecret, coderv1alpha1.SecretKeyEmail),
		FromSecret("CODER_PASSWORD", credentialsSecret, coderv1alpha1.SecretKeyPassword),
	})
	pod.Containers = []corev1.Container{container}
	job := newJob(cp, coderv1alpha1.SuffixedName(cp.Name, adminJobSuffix), adminJobPodName, pod)
	job.Labels = coderv1alpha1.ControlPlaneLabels(cp.Name)
	job.Spec.BackoffLimit, job.Spec.ActiveDeadlineSeconds = ptr.To[int32](3), ptr.To[int64](300)
	return job
}

// newJob returns a Job with a name label of its own, so that the Service never sends requests to its pods.
func newJob(cp *coderv1alpha1.CoderControlPlane, name, podName string, pod corev1.PodSpec) *batchv1.Job {
	labels := merged(coderv1alpha1.ControlPlaneLabels(cp.Name), map[string]string{coderv1alpha1.LabelName: podName})
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cp.Namespace, Labels: labels},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod}},
	}
}

// subcommand returns the command for another subcommand of Coder. The entry point of the image is "coder server", which
// accepts none.
func subcommand(container corev1.Container, names ...string) []string {
	if len(container.Command) == 0 {
		return append([]string{coderProgram}, names...)
	}
	return append(slices.Clone(container.Command), names...)
}

// taskPod returns a pod like that of coderd for a Job, and its container. The resources of the
// container are those of the spec, without the defaults of the chart. The pod has no default affinity
// and no topology spread constraints. It has no sidecars, because they would not end with it. A sidecar that the database
// needs can be an init container with restartPolicy Always.
func taskPod(cp *coderv1alpha1.CoderControlPlane, w Workload) (corev1.PodSpec, corev1.Container) {
	// The pod is new, whatever the pods of the Deployment are.
	w.Live = nil
	pod := MergeablePodTemplate(w).Spec
	container := coderd(pod)
	container.Ports, container.Lifecycle = nil, nil
	container.ReadinessProbe, container.LivenessProbe, container.StartupProbe = nil, nil, nil
	container.Resources = ptr.Deref(cp.Spec.Resources.DeepCopy(), corev1.ResourceRequirements{})
	container.SecurityContext = overSecurityContext(container.SecurityContext, defaultSecurityContext(w))
	if cp.Spec.Affinity == nil {
		pod.Affinity = nil
	}
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.AutomountServiceAccountToken = ptr.To(false)
	pod.TerminationGracePeriodSeconds = nil
	pod.TopologySpreadConstraints = nil
	return pod, container
}

// coderd returns coderd's container of its pod. The pod always has one.
func coderd(pod corev1.PodSpec) corev1.Container {
	at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == ControlPlaneContainer })
	return pod.Containers[max(at, 0)]
}

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
