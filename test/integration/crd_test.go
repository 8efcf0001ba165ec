package integration

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
)

// TestControlPlaneDefaultsAreVisible checks that defaults are in the object,
// not only in the operator.
func TestControlPlaneDefaultsAreVisible(t *testing.T) {
	cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "coder"}}
	if err := environment.client.Create(t.Context(), cp); err != nil {
		t.Fatal(err)
	}
	if got, want := cp.Spec.Image, "ghcr.io/coder/coder:v2.34.8"; got != want {
		t.Errorf("spec.image is %q, not %q", got, want)
	}
	if cp.Spec.Replicas == nil || *cp.Spec.Replicas != 1 {
		t.Errorf("spec.replicas is %v, not 1", cp.Spec.Replicas)
	}
	if cp.Spec.Service.Type != corev1.ServiceTypeClusterIP || cp.Spec.Service.Port != 80 {
		t.Errorf("spec.service is %+v, not ClusterIP on port 80", cp.Spec.Service)
	}
	if cp.Spec.RBAC.WorkspacePerms == nil || !*cp.Spec.RBAC.WorkspacePerms || cp.Spec.RBAC.EnableDeployments == nil || !*cp.Spec.RBAC.EnableDeployments {
		t.Errorf("spec.rbac is %+v, not both true", cp.Spec.RBAC)
	}
	if cp.Spec.ReadinessProbe.Enabled == nil || !*cp.Spec.ReadinessProbe.Enabled {
		t.Errorf("spec.readinessProbe is %+v, not enabled", cp.Spec.ReadinessProbe)
	}
	if cp.Spec.InitialAdmin.Username != "admin" {
		t.Errorf("spec.initialAdmin.username is %q, not admin", cp.Spec.InitialAdmin.Username)
	}
}

// TestControlPlaneBadInputIsRefused checks that errors contain the field, the
// reason and what to do.
func TestControlPlaneBadInputIsRefused(t *testing.T) {
	ns := namespace(t)
	for name, test := range map[string]struct {
		object *coderv1alpha1.CoderControlPlane
		want   string
	}{
		"name with a dot": {
			object: controlPlane(ns, "a.b", nil),
			want:   "metadata.name: must not contain a dot",
		},
		"name of more than 63 characters": {
			object: controlPlane(ns, strings.Repeat("a", 64), nil),
			want:   "metadata.name: must have at most 63 characters",
		},
		"name that begins with a digit": {
			object: controlPlane(ns, "1coder", nil),
			want:   "metadata.name: must begin with a letter",
		},
		"both ways of exposing": {
			object: controlPlane(ns, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
				cp.Spec.Expose = &coderv1alpha1.ExposeSpec{
					Ingress: &coderv1alpha1.IngressSpec{Host: "a"},
					Gateway: &coderv1alpha1.GatewaySpec{Host: "a", ParentRefs: []coderv1alpha1.GatewayParentReference{{Name: "g"}}},
				}
			}),
			want: "spec.expose takes an ingress or a gateway, not both",
		},
		"an environment source that is two": {
			object: controlPlane(ns, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
				cp.Spec.EnvFrom = []corev1.EnvFromSource{{
					ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}},
					SecretRef:    &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "b"}},
				}}
			}),
			want: "write two entries",
		},
		"a variable twice": {
			object: controlPlane(ns, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
				cp.Spec.ExtraEnv = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}}
			}),
			want: "Duplicate value",
		},
		"a negative number of replicas": {
			object: controlPlane(ns, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
				replicas := int32(-1)
				cp.Spec.Replicas = &replicas
			}),
			want: "spec.replicas",
		},
		"a wildcard certificate without a wildcard host": {
			object: controlPlane(ns, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
				cp.Spec.Expose = &coderv1alpha1.ExposeSpec{Ingress: &coderv1alpha1.IngressSpec{
					Host: "a", TLS: &coderv1alpha1.IngressTLSSpec{WildcardSecretName: "w"},
				}}
			}),
			want: "tls.wildcardSecretName holds the certificate of wildcardHost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := environment.client.Create(t.Context(), test.object, client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the answer is %v, not Invalid with %q", err, test.want)
			}
		})
	}
}

// controlPlane returns a control plane, changed by edit if that is not nil.
func controlPlane(ns, name string, edit func(*coderv1alpha1.CoderControlPlane)) *coderv1alpha1.CoderControlPlane {
	cp := &coderv1alpha1.CoderControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	// Only RBAC applies, unless a test sets other rules.
	cp.Spec.Identity.Rules = []coderv1alpha1.IdentityRule{{Match: coderv1alpha1.IdentityMatch{Group: "system:authenticated"}, Operator: true}}
	if edit != nil {
		edit(cp)
	}
	return cp
}
