package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/coderd/coderdtest"
	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// licensedCoder returns a Coder at the name of a control plane, with licenses for
// provisioners and workspace proxies.
func licensedCoder(t *testing.T, names *coders, ns, name string) *coderdtest.Server {
	t.Helper()
	coder := coderdtest.New(t, coderdtest.WithLicensing())
	coder.SetFeature("external_provisioner_daemons", "entitled")
	coder.SetFeature("workspace_proxy", "entitled")
	names.add(t, ns, name, coder)
	return coder
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := environment.client.Create(t.Context(), object); err != nil {
			t.Fatalf("making %T %s: %v", object, object.GetName(), err)
		}
	}
}

// read returns the current state of an object.
func read[T client.Object](t *testing.T, object T, ns, name string) T {
	t.Helper()
	if err := environment.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, object); err != nil {
		t.Fatalf("reading %T %s/%s: %v", object, ns, name, err)
	}
	return object
}

// patch changes an object with a merge patch, as a field manager.
func patch(t *testing.T, object client.Object, manager, content string) {
	t.Helper()
	err := environment.client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(content)), client.FieldOwner(manager))
	if err != nil {
		t.Fatalf("changing %T %s: %v", object, object.GetName(), err)
	}
}

func secret(ns, name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, StringData: data}
}

func provisioner(ns, name string) *coderv1alpha1.CoderProvisioner {
	return &coderv1alpha1.CoderProvisioner{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       coderv1alpha1.CoderProvisionerSpec{ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "coder"}},
	}
}

func workspaceProxy(ns, name string) *coderv1alpha1.CoderWorkspaceProxy {
	return &coderv1alpha1.CoderWorkspaceProxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       coderv1alpha1.CoderWorkspaceProxySpec{ControlPlaneRef: &coderv1alpha1.ControlPlaneReference{Name: "coder"}},
	}
}

// statusOf returns the common part of the status of the three kinds.
func statusOf(t *testing.T, object client.Object) coderv1alpha1.WorkloadStatus {
	t.Helper()
	switch o := object.(type) {
	case *coderv1alpha1.CoderControlPlane:
		return o.Status.WorkloadStatus
	case *coderv1alpha1.CoderProvisioner:
		return o.Status.WorkloadStatus
	case *coderv1alpha1.CoderWorkspaceProxy:
		return o.Status.WorkloadStatus
	}
	t.Fatalf("%T is none of our kinds", object)
	return coderv1alpha1.WorkloadStatus{}
}

// is waits until a condition for the newest generation has a status, and a reason
// if it is not empty.
func is(t *testing.T, object client.Object, conditionType string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	what := fmt.Sprintf("%T %s: %s is %s %s", object, object.GetName(), conditionType, status, reason)
	polltest.Eventually(t, what, func(ctx context.Context) error {
		if err := environment.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		all := statusOf(t, object).Conditions
		c := meta.FindStatusCondition(all, conditionType)
		if c == nil || c.Status != status || (reason != "" && c.Reason != reason) || c.ObservedGeneration != object.GetGeneration() {
			return fmt.Errorf("generation %d, the conditions are %+v", object.GetGeneration(), all)
		}
		return nil
	})
}

func isReady(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		is(t, object, coderv1alpha1.ConditionReady, metav1.ConditionTrue, "")
	}
}

// exists waits until an object exists or, with gone, until it does not exist.
func exists(t *testing.T, object client.Object, ns, name string, gone bool) {
	t.Helper()
	polltest.Eventually(t, fmt.Sprintf("%T %s/%s exists (or not: %v)", object, ns, name, gone), func(ctx context.Context) error {
		err := environment.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, object)
		if gone && err == nil {
			return fmt.Errorf("it is there")
		}
		if gone && apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// remove deletes an object and waits until it is gone.
func remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := environment.client.Delete(t.Context(), object); err != nil {
		t.Fatalf("deleting %T %s: %v", object, object.GetName(), err)
	}
	exists(t, object, object.GetNamespace(), object.GetName(), true)
}

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
