package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func fromConfigMap(name, key string, optional bool) corev1.EnvVar {
	return corev1.EnvVar{Name: "V", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: ptr.To(optional),
	}}}
}

func secretIn(name string, optional *bool, keys ...string) corev1.Volume {
	source := &corev1.SecretVolumeSource{SecretName: name, Optional: optional}
	for _, key := range keys {
		source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Secret: source}}
}

func TestReferences(t *testing.T) {
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	for name, c := range map[string]struct {
		pod  corev1.PodSpec
		want []Reference
	}{
		"none": {pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}}}},
		"keys of variables, in every container": {
			corev1.PodSpec{
				Containers:     []corev1.Container{{Env: []corev1.EnvVar{FromSecret("A", "s", "b"), FromSecret("B", "s", "b")}}, {Env: []corev1.EnvVar{FromSecret("C", "s", "a")}}},
				InitContainers: []corev1.Container{{Env: []corev1.EnvVar{fromConfigMap("m", "k", true)}}},
			},
			[]Reference{{Kind: KindConfigMap, Name: "m", Keys: []string{"k"}, Optional: true}, {Kind: KindSecret, Name: "s", Keys: []string{"a", "b"}}},
		},
		"whole objects": {
			corev1.PodSpec{Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("s"), Optional: ptr.To(true)}},
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("m")}},
			}}}},
			[]Reference{{Kind: KindConfigMap, Name: "m"}, {Kind: KindSecret, Name: "s", Optional: true}},
		},
		"all keys go over some, and needed over optional": {
			corev1.PodSpec{
				Containers: []corev1.Container{{Env: []corev1.EnvVar{FromSecret("A", "s", "b")}}},
				Volumes:    []corev1.Volume{secretIn("s", ptr.To(true)), secretIn("t", ptr.To(true), "y", "x"), secretIn("t", nil, "z")},
			},
			[]Reference{{Kind: KindSecret, Name: "s"}, {Kind: KindSecret, Name: "t", Keys: []string{"x", "y", "z"}}},
		},
		"volumes": {
			corev1.PodSpec{Volumes: []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("m"), Items: []corev1.KeyToPath{{Key: "k"}}}}},
				{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: local("p"), Items: []corev1.KeyToPath{{Key: "q"}}}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("n"), Optional: ptr.To(true)}},
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
				}}}},
				{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			}},
			[]Reference{
				{Kind: KindConfigMap, Name: "m", Keys: []string{"k"}}, {Kind: KindConfigMap, Name: "n", Optional: true},
				{Kind: KindSecret, Name: "p", Keys: []string{"q"}},
			},
		},
		"not what the kubelet alone uses, and nothing without a name": {
			pod: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{local("registry")}, Volumes: []corev1.Volume{secretIn("", nil)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.pod.DeepCopy()
			if diff := cmp.Diff(c.want, References(c.pod)); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, c.pod); diff != "" {
				t.Errorf("the pod changed:\n%s", diff)
			}
		})
	}
}

// References of podTemplate count too, because they are in the pods.
func TestReferencesOfAWholeWorkload(t *testing.T) {
	template, err := PodTemplate(full())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range References(template.Spec) {
		got = append(got, r.Kind+" "+r.Name)
	}
	if diff := cmp.Diff([]string{
		"ConfigMap more", "Secret berlin-proxy-token", "Secret corp-ca", "Secret db-ca", "Secret noise",
		"Secret web-tls", "Secret wild.example.com",
	}, got); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}
