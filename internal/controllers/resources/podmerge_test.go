package resources

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func ours(change corev1.Container) *corev1.PodTemplateSpec {
	change.Name = "workspace-proxy"
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{change}}}
}

func TestPodTemplateIsMergedOverThePods(t *testing.T) {
	secret := corev1.Volume{Name: "tls-web", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "web"}}}
	for name, c := range map[string]struct {
		over *corev1.PodTemplateSpec
		// want changes the pods without a template into the expected pods.
		want func(pod *corev1.PodTemplateSpec, coder *corev1.Container)
	}{
		"an empty template": {&corev1.PodTemplateSpec{}, func(*corev1.PodTemplateSpec, *corev1.Container) {}},
		"a sidecar comes after Coder": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}}}},
			func(pod *corev1.PodTemplateSpec, _ *corev1.Container) {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "a", Image: "a:1"})
			},
		},
		"a value of the container": {
			ours(corev1.Container{WorkingDir: "/home/coder"}),
			func(_ *corev1.PodTemplateSpec, coder *corev1.Container) { coder.WorkingDir = "/home/coder" },
		},
		"a variable comes after those that it may refer to": {
			ours(corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "$(KUBE_POD_IP)"}}}),
			func(_ *corev1.PodTemplateSpec, coder *corev1.Container) {
				coder.Env = append(coder.Env, corev1.EnvVar{Name: "A", Value: "$(KUBE_POD_IP)"})
			},
		},
		"a source takes the place of a value": {
			ours(corev1.Container{Env: []corev1.EnvVar{FromSecret(EnvAccessURL, "addresses", "public")}}),
			func(_ *corev1.PodTemplateSpec, coder *corev1.Container) {
				coder.Env[indexOf(coder.Env, EnvAccessURL)] = FromSecret(EnvAccessURL, "addresses", "public")
			},
		},
		"a value takes the place of a source": {
			ours(corev1.Container{Env: []corev1.EnvVar{{Name: envPodIP, Value: "192.0.2.1"}}}),
			func(_ *corev1.PodTemplateSpec, coder *corev1.Container) {
				coder.Env[indexOf(coder.Env, envPodIP)] = corev1.EnvVar{Name: envPodIP, Value: "192.0.2.1"}
			},
		},
		"another way to probe takes the place of ours": {
			ours(corev1.Container{ReadinessProbe: &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}},
			}}),
			func(_ *corev1.PodTemplateSpec, coder *corev1.Container) {
				coder.ReadinessProbe.ProbeHandler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}
			},
		},
		"a part of the probe": {
			ours(corev1.Container{ReadinessProbe: &corev1.Probe{PeriodSeconds: 99}}),
			func(_ *corev1.PodTemplateSpec, coder *corev1.Container) { coder.ReadinessProbe.PeriodSeconds = 99 },
		},
		"the mode of a volume": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "tls-web", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{DefaultMode: ptr.To[int32](0o400)},
			}}}}},
			func(pod *corev1.PodTemplateSpec, _ *corev1.Container) {
				pod.Spec.Volumes[0].Secret.DefaultMode = ptr.To[int32](0o400)
			},
		},
		"a volume without a source": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "tls-web"}}}},
			func(*corev1.PodTemplateSpec, *corev1.Container) {},
		},
		"another source of a volume": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
				{Name: "more", VolumeSource: secret.VolumeSource},
				{Name: "tls-web", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			}}},
			func(pod *corev1.PodTemplateSpec, _ *corev1.Container) {
				pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: secret.VolumeSource})
			},
		},
		"labels and annotations": {
			&corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"note": "b", coderv1alpha1.LabelComponent: "mine"},
			}},
			func(pod *corev1.PodTemplateSpec, _ *corev1.Container) {
				pod.Labels["team"] = "a"
				pod.Annotations["note"], pod.Annotations[coderv1alpha1.LabelComponent] = "b", "mine"
			},
		},
		"what would take the pods from the Deployment, or keep them from rolling": {
			&corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
				Labels: map[string]string{coderv1alpha1.LabelInstance: "other", coderv1alpha1.LabelName: "other", coderv1alpha1.LabelManagedBy: "me"},
				Annotations: map[string]string{
					coderv1alpha1.AnnotationConfigChecksum: "always the same", "coder.com/key": "always the same",
				},
			}},
			func(*corev1.PodTemplateSpec, *corev1.Container) {},
		},
		"the same ServiceAccount": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "wsproxy-berlin"}},
			func(*corev1.PodTemplateSpec, *corev1.Container) {},
		},
		"a port": {
			ours(corev1.Container{Ports: []corev1.ContainerPort{{Name: "debug", ContainerPort: 6060}}}),
			func(_ *corev1.PodTemplateSpec, coder *corev1.Container) {
				coder.Ports = append(coder.Ports, corev1.ContainerPort{Name: "debug", ContainerPort: 6060})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := proxy()
			w.Serving.Spec.TLS.SecretNames = []string{"web"}
			w.Checksum, w.PodAnnotations = "a checksum", map[string]string{"coder.com/key": "7"}
			want := PlainPodTemplate(w)
			c.want(&want, &want.Spec.Containers[0])
			w.Spec.PodTemplate = c.over
			before := w.Spec.DeepCopy()
			got, err := PodTemplate(w)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, w.Spec); diff != "" {
				t.Errorf("the merge changed the spec:\n%s", diff)
			}
		})
	}
}

func TestAChecksumThatThePodsDoNotHaveCannotBeGiven(t *testing.T) {
	w := proxy()
	w.Spec.PodTemplate = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{coderv1alpha1.AnnotationConfigChecksum: "mine"},
	}}
	got, err := PodTemplate(w)
	if err != nil || got.Annotations[coderv1alpha1.AnnotationConfigChecksum] != "" {
		t.Errorf("annotations %v, error %v", got.Annotations, err)
	}
}

func TestAPodTemplateThatDoesNotFitNamesItsField(t *testing.T) {
	for name, c := range map[string]struct {
		over          *corev1.PodTemplateSpec
		field, remedy string
	}{
		"another ServiceAccount": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: "cluster-admin"}},
			"spec.podTemplate.spec.serviceAccountName", "spec.serviceAccount.name",
		},
		"another ServiceAccount under its old name": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{DeprecatedServiceAccount: "cluster-admin"}},
			"spec.podTemplate.spec.serviceAccount", "spec.serviceAccount.name",
		},
		"pods that end": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}},
			"spec.podTemplate.spec.restartPolicy", `remove "Never"`,
		},
		"a container without a name": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Image: "b"}}}},
			"spec.podTemplate.spec.containers[1].name", `"workspace-proxy"`,
		},
		"another name of the port": {
			ours(corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 3001}}}),
			"spec.podTemplate.spec.containers", `remove "web"`,
		},
		"a list entry that names nothing": {
			&corev1.PodTemplateSpec{Spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{}}}},
			"spec.podTemplate", "name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := proxy()
			w.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
			w.Spec.PodTemplate = c.over
			d, err := Deployment(w)
			var wrong *SpecError
			if !errors.As(err, &wrong) || d != nil {
				t.Fatalf("error %v, want a SpecError", err)
			}
			if wrong.Field != c.field || !strings.Contains(wrong.Detail, c.remedy) {
				t.Errorf("error is %q, want one of field %s that says %s", err, c.field, c.remedy)
			}
		})
	}
}

func indexOf(env []corev1.EnvVar, name string) int {
	for i := range env {
		if env[i].Name == name {
			return i
		}
	}
	return -1
}
