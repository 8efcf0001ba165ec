package resources

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	workloadresources "github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// The replicas of one control plane reach each other on the port of Coder's embedded NATS, and no
// other pod does.
func TestReplicasReachEachOther(t *testing.T) {
	cp := minimal()
	cp.Spec.NetworkPolicy = &coderv1alpha1.NetworkPolicySpec{}
	w := Workload(cp, Inputs{})
	found := false
	for _, rule := range workloadresources.NetworkPolicy(w).Spec.Ingress {
		for _, port := range rule.Ports {
			if port.Port.IntValue() != clusterPort {
				continue
			}
			found = true
			if len(rule.From) != 1 || rule.From[0].NamespaceSelector != nil || rule.From[0].PodSelector.MatchLabels[coderv1alpha1.LabelInstance] != cp.Name {
				t.Errorf("port %d is open to %v", clusterPort, rule.From)
			}
		}
	}
	if !found {
		t.Errorf("no rule for port %d", clusterPort)
	}
}

func TestClusterHost(t *testing.T) {
	running := func(image string, env ...corev1.EnvVar) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "coder", Image: image, Env: env}}}}
	}
	image := Image(minimal())
	podIP := corev1.EnvVar{Name: envClusterHost, Value: "$(KUBE_POD_IP)"}
	for name, c := range map[string]struct {
		in   Inputs
		live *corev1.PodTemplateSpec
		want bool
	}{
		"new":                 {Inputs{}, nil, true},
		"given by a Secret":   {Inputs{EnvFromNames: map[string]bool{envClusterHost: true}}, nil, false},
		"running without it":  {Inputs{}, running(image), false},
		"running with it":     {Inputs{}, running(image, corev1.EnvVar{Name: "KUBE_POD_IP"}, podIP), true},
		"the image changes":   {Inputs{}, running("coder:older"), true},
		"taken over, without": {Inputs{Adopted: &workloadresources.Adopted{Container: "coder", Template: running(image)}}, nil, false},
	} {
		w := Workload(minimal(), c.in)
		w.Live = c.live
		template, err := workloadresources.PodTemplate(w)
		if err != nil {
			t.Fatal(err)
		}
		env := template.Spec.Containers[0].Env
		at := slices.Index(env, podIP)
		if got := at >= 0; got != c.want {
			t.Errorf("%s: set: %t, want %t", name, got, c.want)
		}
		// A variable can only refer to variables before it.
		if ip := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == "KUBE_POD_IP" }); at >= 0 && ip > at {
			t.Errorf("%s: KUBE_POD_IP comes after it", name)
		}
	}
}
