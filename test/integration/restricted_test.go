package integration

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

const restrictedAccount = "coder-k8s-restricted"

// restrictedConfig returns the client configuration of a ServiceAccount with the
// permissions of the installation for some namespaces in these, under separate names: the
// ServiceAccount of the other tests has permissions in the whole cluster.
func restrictedConfig(t *testing.T, namespaces ...string) *rest.Config {
	t.Helper()
	if err := install(); err != nil {
		t.Fatalf("installing the RBAC: %v", err)
	}
	for _, object := range rendered(t, "namespaced") {
		switch object.GetKind() {
		case "RoleBinding", "ClusterRoleBinding", "ClusterRole", "Role":
		default:
			continue // The ServiceAccount is created with its token; the rest is not needed here.
		}
		for _, subject := range field[[]any](t, object, "subjects") {
			if s := subject.(map[string]any); s["name"] == "coder-k8s" {
				s["name"] = restrictedAccount
			}
		}
		in := []string{object.GetNamespace()}
		if object.GetNamespace() == "coder" {
			in = namespaces
		}
		for _, ns := range in {
			made := object.DeepCopy()
			made.SetNamespace(ns)
			if strings.HasSuffix(made.GetKind(), "Binding") {
				made.SetName(made.GetName() + "-restricted")
			}
			if err := environment.client.Create(t.Context(), made); client.IgnoreAlreadyExists(err) != nil {
				t.Fatalf("making %s %s: %v", made.GetKind(), made.GetName(), err)
			}
		}
	}
	return serviceAccountConfig(t, operatorNamespace, restrictedAccount)
}

// field returns a field of an object, or the zero value.
func field[T any](t *testing.T, object *unstructured.Unstructured, path ...string) T {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := value.(T)
	return got
}

// rendered returns the objects of an installation.
func rendered(t *testing.T, name string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kubetest.Installation(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestSomeNamespaces checks that with --watch-namespaces and only the permissions
// of that installation the operator works in those namespaces, and in no other,
// and that none of its requests is refused. It is not parallel: of the programs with the
// aggregated API, only one mirrors.
func TestSomeNamespaces(t *testing.T) {
	a, b, c := namespace(t), namespace(t), namespace(t)
	config := restrictedConfig(t, a, b)
	names, proxy := startCoders(t)
	p := startProcessAs(t, config, proxy, "--app=all", "--leader-elect=false", "--watch-namespaces="+a+","+b)
	p.ready(t)
	startStandIn(t, a, b, c)
	ignored := controlPlane(c, "coder", withDatabase)
	first := controlPlane(a, "coder", func(cp *coderv1alpha1.CoderControlPlane) {
		withDatabase(cp)
		cp.Spec.RBAC.WorkspaceNamespaces = []string{b, c}
	})
	second := controlPlane(b, "coder", withDatabase)
	licensedCoder(t, names, c, "coder")
	licensedCoder(t, names, a, "coder")
	licensedCoder(t, names, b, "coder")
	create(t, ignored, first, second, provisioner(a, "runner"), workspaceProxy(b, "near"))
	isReady(t, first, second, provisioner(a, "runner"), workspaceProxy(b, "near"))
	is(t, first, coderv1alpha1.ConditionWorkspaceAccess, metav1.ConditionFalse, coderv1alpha1.ReasonNamespaceNotWatched)
	remove(t, first)
	if status := read(t, &coderv1alpha1.CoderControlPlane{}, c, "coder").Status; len(status.Conditions) > 0 {
		t.Errorf("the operator works in a namespace that it was not told of: %+v", status.Conditions)
	}
	found, err := objects(t.Context(), c)
	if err != nil || len(found) != 1 {
		t.Errorf("there are %v in the namespace that is not watched, error %v", found, err)
	}
	// The test would be useless if this ServiceAccount had more permissions.
	other := as(t, serviceAccountConfig(t, operatorNamespace, restrictedAccount))
	for ns, allowed := range map[string]bool{a: true, c: false} {
		err := other.List(t.Context(), &coderv1alpha1.CoderControlPlaneList{}, client.InNamespace(ns))
		if allowed != (err == nil) || (!allowed && !apierrors.IsForbidden(err)) {
			t.Errorf("the rights of the operator are not those of the test: in %s a list gives %v", ns, err)
		}
	}
}
