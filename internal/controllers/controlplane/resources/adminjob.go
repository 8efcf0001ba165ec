package resources

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

const (
	adminJobRetries  = 3
	adminJobDeadline = 300
)

// AdminJob makes the operator's account in a Coder that already has users: the
// image of coderd, with its environment and therefore its database, runs
// Coder's own command for that. Username, email and password come from the
// Secret of the given name.
func AdminJob(cp *coderv1alpha1.CoderControlPlane, in Inputs, credentialsSecret string) *batchv1.Job {
	container := coderContainer(cp, in)
	// The entry point of the image is "coder server", which takes no further
	// command.
	container.Command = []string{"/opt/coder", "server", "create-admin-user"}
	container.Env = overlaid(container.Env, []corev1.EnvVar{
		fromSecret("CODER_USERNAME", credentialsSecret, coderv1alpha1.SecretKeyUsername),
		fromSecret("CODER_EMAIL", credentialsSecret, coderv1alpha1.SecretKeyEmail),
		fromSecret("CODER_PASSWORD", credentialsSecret, coderv1alpha1.SecretKeyPassword),
	})
	pod := podSpec(cp, container)
	pod.RestartPolicy = corev1.RestartPolicyNever
	pod.AutomountServiceAccountToken = ptr.To(false)
	pod.TerminationGracePeriodSeconds = nil
	pod.TopologySpreadConstraints = nil

	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: AdminJobName(cp), Namespace: cp.Namespace, Labels: Labels(cp),
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:          ptr.To[int32](adminJobRetries),
			ActiveDeadlineSeconds: ptr.To[int64](adminJobDeadline),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: merged(Labels(cp), map[string]string{
					coderv1alpha1.LabelName: adminJobPodName,
				})},
				Spec: pod,
			},
		},
	}
}

func fromSecret(variable, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
		},
	}}
}
