package migrate

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A credential in the running pods does not get into the manifest or into an error.
func TestKeepFormWithCredentials(t *testing.T) {
	const url = "postgres://coder:hunter2@db/coder"
	for name, c := range map[string]struct {
		change func(template *corev1.PodTemplateSpec)
		want   string
	}{
		"none":         {func(*corev1.PodTemplateSpec) {}, ""},
		"command line": {func(p *corev1.PodTemplateSpec) { p.Spec.Containers[0].Args = []string{"--postgres-url=" + url} }, "the command line in Deployment"},
		"annotation": {
			func(p *corev1.PodTemplateSpec) {
				p.Annotations = map[string]string{"team": "a", "example.com/database": url}
			},
			`the label or annotation "example.com/database" of the pods of Deployment "coder" holds a credential`,
		},
		"annotation with the name of a secret": {
			func(p *corev1.PodTemplateSpec) { p.Annotations = map[string]string{"password": "hunter2"} }, `the label or annotation "password"`,
		},
		"label": {func(p *corev1.PodTemplateSpec) { p.Labels = map[string]string{"token": "hunter2"} }, `the label or annotation "token"`},
		"variable of the chart": {
			func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CODER_ACCESS_URL", Value: "https://coder:hunter2@coder.example.com"}}
			}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "coder"}, Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{}}}
			live.Spec.Template.Spec.Containers = []corev1.Container{{Name: chartContainer, Image: "coder"}}
			c.change(&live.Spec.Template)
			manifest := &Manifest{Kind: KindControlPlane, Spec: map[string]any{}}
			err := keepForm(manifest, live)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
			if text, _ := manifest.YAML(); strings.Contains(fmt.Sprintf("%s%v", text, err), "hunter2") {
				t.Errorf("the credential is written: %v\n%s", err, text)
			}
		})
	}
}

// Differences contain no value that may be a secret.
func TestDifferencesWithCredentials(t *testing.T) {
	volume := func(key, value string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{
			CSI: &corev1.CSIVolumeSource{Driver: "d", VolumeAttributes: map[string]string{key: value}},
		}}}}}
	}
	container := func(c corev1.Container) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	header := func(value string) *corev1.PodTemplateSpec {
		return container(corev1.Container{Name: "c", LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Key", Value: value}},
		}}}})
	}
	const attribute = "spec.volumes[0 a].csi.volumeAttributes."
	for name, c := range map[string]struct {
		before, after *corev1.PodTemplateSpec
		want          string
	}{
		"plain":             {volume("share", "a"), volume("share", "b"), attribute + `share: "a" → "b"`},
		"name of a secret":  {volume("password", "hunter2"), volume("password", "correct-horse"), attribute + "password: another value"},
		"credential before": {volume("url", "https://u:hunter2@h/"), volume("url", "https://h/"), attribute + "url: another value"},
		"credential after":  {volume("url", ""), volume("url", "https://u:hunter2@h/"), attribute + "url: another value"},
		"private key":       {volume("key", "-----BEGIN PRIVATE KEY-----\nhunter2hunter2\n-----END PRIVATE KEY-----\n"), volume("key", "a"), attribute + "key: another value"},
		"header":            {header("hunter2"), header("correct-horse"), "spec.containers[0 c].livenessProbe.httpGet.httpHeaders[0 X-Key].value: another value"},
		"variable that is gone": {
			container(corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "hunter2"}}}), container(corev1.Container{Name: "c"}),
			"spec.containers[0 c].env[0 A].name: \"A\" → nothing\nspec.containers[0 c].env[0 A].value: a value → nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := differences(c.before, c.after)
			if got := strings.Join(found, "\n"); err != nil || got != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
		})
	}
}
