package resources

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

func TestStrategy(t *testing.T) {
	rolling, recreate := appsv1.RollingUpdateDeploymentStrategyType, appsv1.RecreateDeploymentStrategyType
	for name, c := range map[string]struct {
		spec      *coderv1alpha1.DeploymentStrategy
		stopFirst bool
		want      appsv1.DeploymentStrategyType
	}{
		"default":                      {nil, false, rolling},
		"old pods stop first":          {nil, true, recreate},
		"given":                        {&coderv1alpha1.DeploymentStrategy{Type: string(recreate)}, false, recreate},
		"given, and stop first":        {&coderv1alpha1.DeploymentStrategy{Type: string(rolling)}, true, recreate},
		"given empty is a rolling one": {&coderv1alpha1.DeploymentStrategy{}, false, rolling},
	} {
		w := plainControlPlane(minimalControlPlane())
		w.Spec.Deployment.Strategy, w.StopFirst = c.spec, c.stopFirst
		got := deployment(t, w).Spec.Strategy
		if got.Type != c.want || (got.RollingUpdate == nil) != (c.want == recreate) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestHeldImage(t *testing.T) {
	w := plainControlPlane(exposedControlPlane())
	w.Spec.PodTemplate.Spec.Containers[0].Image = "coder:wanted"
	w.HeldImage = "coder:held"
	template := deployment(t, w).Spec.Template
	if got := ImageOf(w, &template); got != "coder:held" {
		t.Errorf("the image is %q", got)
	}
	// The running container does not change, so that it gets no new default either.
	w.Live = &template
	if runningContainer(w) == nil {
		t.Error("the pods count as new")
	}
}

// TestStartupProbe checks that a liveness probe does not end a Coder that migrates its database, and
// that the operator does not replace pods for that.
func TestStartupProbe(t *testing.T) {
	cp := minimalControlPlane()
	if c := PlainPodTemplate(plainControlPlane(cp)).Spec.Containers[0]; c.StartupProbe != nil {
		t.Errorf("without a liveness probe: %+v", c.StartupProbe)
	}
	cp.Spec.LivenessProbe = coderv1alpha1.ProbeSpec{Enabled: ptr.To(true), TimeoutSeconds: ptr.To[int32](7)}
	w := plainControlPlane(cp)
	probe := PlainPodTemplate(w).Spec.Containers[0].StartupProbe
	if probe == nil || probe.PeriodSeconds*probe.FailureThreshold != 1800 || probe.TimeoutSeconds != 7 || probe.HTTPGet.Path != "/healthz" {
		t.Errorf("%+v", probe)
	}
	live := func(image string, liveness, startup *corev1.Probe) {
		w.Live = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: w.Container, Image: image, LivenessProbe: liveness, StartupProbe: startup},
		}}}
	}
	for name, c := range map[string]struct {
		image             string
		liveness, startup *corev1.Probe
		want              bool
	}{
		"runs without it":                    {w.Image, probe, nil, false},
		"runs with it":                       {w.Image, probe, probe, true},
		"the image changes":                  {"coder:before", probe, nil, true},
		"the liveness probe comes with this": {w.Image, nil, nil, true},
	} {
		live(c.image, c.liveness, c.startup)
		if got := PlainPodTemplate(w).Spec.Containers[0].StartupProbe; (got != nil) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if c := PlainPodTemplate(proxy()).Spec.Containers[0]; c.StartupProbe != nil {
		t.Error("a proxy migrates nothing")
	}

	// One in spec.podTemplate stays as it is.
	given := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: probe.HTTPGet}, PeriodSeconds: 3}
	cp.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: ControlPlaneContainer, StartupProbe: given}}}}
	if got := deployment(t, plainControlPlane(cp)).Spec.Template.Spec.Containers[0].StartupProbe; got.String() != given.String() {
		t.Errorf("given %+v, got %+v", given, got)
	}
}

// The image of running pods may come from spec.podTemplate, or with a digest from a webhook. The pods
// get no new default in these cases either.
func TestRunningContainer(t *testing.T) {
	for name, c := range map[string]struct {
		given, live string
		want        bool
	}{
		"the image of the spec":             {"", "coder:v2.30.0", true},
		"another image":                     {"", "coder:v2.30.1", false},
		"with a digest":                     {"", "coder:v2.30.0@sha256:aa", true},
		"the image of the pod template":     {"coder:v2.31.0", "coder:v2.31.0", true},
		"not the image of the pod template": {"coder:v2.31.0", "coder:v2.30.0", false},
	} {
		w := plainControlPlane(minimalControlPlane())
		w.Image = "coder:v2.30.0"
		w.Spec.PodTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: w.Container, Image: c.given}}}}
		w.Live = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: w.Container, Image: c.live}}}}
		if got := runningContainer(w) != nil; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
