package resources

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// The pod is scheduled and pulled like that of coderd, and has nothing of what coderd knows.
func TestImageJobHasNoSecrets(t *testing.T) {
	cp := exposedControlPlane()
	cp.Spec.Image = "coder:new"
	cp.Spec.ExtraEnv = []corev1.EnvVar{FromSecret(coderv1alpha1.EnvDatabase, "db", "url")}
	cp.Spec.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "env"}}}}
	cp.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	cp.Spec.NodeSelector = map[string]string{"pool": "coder"}
	cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		ShareProcessNamespace: ptr.To(true),
		InitContainers:        []corev1.Container{{Name: "vault", Image: "vault"}},
		Containers:            []corev1.Container{{Name: "sidecar", Image: "sidecar"}},
	}}
	w := plainControlPlane(cp)
	w.HeldImage = "coder:old"
	job := ImageJob(cp, w, "job")
	pod := job.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) > 0 || len(pod.Volumes) > 0 || ptr.Deref(pod.AutomountServiceAccountToken, true) || pod.ShareProcessNamespace != nil {
		t.Fatalf("the pod is %+v", pod)
	}
	c := pod.Containers[0]
	if len(c.Env) > 0 || len(c.EnvFrom) > 0 || len(c.VolumeMounts) > 0 || len(c.Args) > 0 || len(c.Ports) > 0 {
		t.Errorf("the container is %+v", c)
	}
	if c.Image != "coder:new" || !slices.Equal(c.Command, []string{"/opt/coder", "version"}) || !ptr.Deref(c.SecurityContext.RunAsNonRoot, false) {
		t.Errorf("the container is %+v", c)
	}
	if pod.NodeSelector["pool"] != "coder" || len(pod.ImagePullSecrets) != 1 || pod.ServiceAccountName != w.ServiceAccountName {
		t.Errorf("the pod is %+v", pod)
	}
	if job.Spec.Template.Labels[coderv1alpha1.LabelName] == coderv1alpha1.ControlPlaneName {
		t.Error("the Service of Coder selects the pod")
	}
	cp.Spec.Command = []string{"/usr/bin/coder"}
	if c := ImageJob(cp, plainControlPlane(cp), "job").Spec.Template.Spec.Containers[0]; !slices.Equal(c.Command, []string{"/usr/bin/coder", "version"}) {
		t.Errorf("the command is %q", c.Command)
	}
}
