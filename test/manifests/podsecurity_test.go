package manifests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/resources"
)

// TestPodSecurityRestrictedAdmitsOurPods checks every kind of pod that the operator
// creates, with the defaults and with specs that change a part of them.
func TestPodSecurityRestrictedAdmitsOurPods(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// helm has the pod template of Coder's own chart.
	helm := &resources.Adopted{
		Selector: map[string]string{"app": "coder"}, Container: "coder",
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "coder"}}}},
	}
	for name, c := range map[string]struct {
		spec    coderv1alpha1.WorkloadSpec
		adopted *resources.Adopted
	}{
		"defaults":              {},
		"the platform's user":   {spec: coderv1alpha1.WorkloadSpec{PlatformAssignedUser: true}},
		"a read-only root":      {spec: coderv1alpha1.WorkloadSpec{SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}}},
		"a group for volumes":   {spec: coderv1alpha1.WorkloadSpec{PodSecurityContext: &corev1.PodSecurityContext{FSGroup: ptr.To[int64](7)}}},
		"taken over from Helm":  {adopted: helm},
		"all but NET_BIND kept": {spec: coderv1alpha1.WorkloadSpec{SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: "coder", Name: "coder"}
			cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: meta, Spec: coderv1alpha1.CoderControlPlaneSpec{WorkloadSpec: c.spec}}
			controlPlane := resources.ControlPlane(cp, resources.Cluster{})
			controlPlane.Adopted = c.adopted
			pods := map[string]*corev1.PodTemplateSpec{
				"administrator's Job": &resources.AdminJob(cp, controlPlane, "credentials").Spec.Template,
			}
			if c.adopted == nil { // Its Deployment keeps its pods as they are.
				for kind, w := range map[string]resources.Workload{
					"control plane":   controlPlane,
					"provisioner":     resources.Provisioner(&coderv1alpha1.CoderProvisioner{ObjectMeta: meta, Spec: coderv1alpha1.CoderProvisionerSpec{WorkloadSpec: c.spec}}, resources.ProvisionerInputs{}),
					"workspace proxy": resources.WorkspaceProxy(&coderv1alpha1.CoderWorkspaceProxy{ObjectMeta: meta, Spec: coderv1alpha1.CoderWorkspaceProxySpec{WorkloadSpec: c.spec}}, resources.WorkspaceProxyInputs{}),
				} {
					template, err := resources.PodTemplate(w)
					if err != nil {
						t.Fatal(err)
					}
					pods[kind] = &template
				}
			}
			for kind, pod := range pods {
				restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
				if result := policy.AggregateCheckResults(evaluator.EvaluatePod(restricted, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
					t.Errorf("%s: %s: %s", kind, result.ForbiddenReason(), result.ForbiddenDetail())
				}
			}
		})
	}
}
