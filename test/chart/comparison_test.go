package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestOverlays checks that the chart renders exactly the objects of config.
func TestOverlays(t *testing.T) {
	tests := map[string]string{
		"config/default":          "",
		"config/split":            "testdata/split.values.yaml",
		"config/namespaced":       "testdata/namespaced.values.yaml",
		"config/ha":               chartDir + "/installations/ha.yaml",
		"config/split-ha":         "testdata/split-high-availability.values.yaml",
		"config/cert-manager":     "testdata/cert-manager.values.yaml",
		"config/network-policies": "testdata/network-policies.values.yaml",

		"test/manifests/testdata/private":      "testdata/private.values.yaml",
		"test/manifests/testdata/host-network": "testdata/host-network.values.yaml",
	}
	for dir, values := range tests {
		t.Run(dir, func(t *testing.T) {
			theirs, ours := overlay(t, dir), rendered(t, values)
			// Helm or the user creates the namespace.
			delete(theirs, "Namespace "+namespace)
			for _, name := range slices.Sorted(maps.Keys(ours)) {
				if onlyInChart(ours[name]) {
					delete(ours, name)
				}
			}
			if diff := cmp.Diff(theirs.names(), ours.names()); diff != "" {
				t.Fatalf("the objects of %s (-) and of the chart (+):\n%s", dir, diff)
			}
			for name, object := range ours {
				if diff := cmp.Diff(plain(theirs[name]), plain(object)); diff != "" {
					t.Errorf("%s in %s (-) and in the chart (+):\n%s", name, dir, diff)
				}
			}
		})
	}
}

// TestMonitoring checks that the values of monitoring add the objects of
// config/monitoring.
func TestMonitoring(t *testing.T) {
	theirs, with, without := overlay(t, "config/monitoring"), rendered(t, "testdata/monitoring.values.yaml"), rendered(t, "testdata/no-people.values.yaml")
	for name := range without {
		delete(with, name)
	}
	// Prometheus is bound to a role that is otherwise for users.
	delete(with, "ClusterRole coder-k8s-metrics-reader")
	if diff := cmp.Diff(theirs.names(), with.names()); diff != "" {
		t.Fatalf("the objects of config/monitoring (-) and of the chart (+):\n%s", diff)
	}
	for name, object := range with {
		if diff := cmp.Diff(plain(theirs[name]), plain(object)); diff != "" {
			t.Errorf("%s in config/monitoring (-) and in the chart (+):\n%s", name, diff)
		}
	}
}

// onlyInChart reports whether an object exists only in the chart: tests and hooks,
// and the policy that allows them to connect to kube-apiserver.
func onlyInChart(object *unstructured.Unstructured) bool {
	return object.GetAnnotations()["helm.sh/hook"] != "" || object.GetName() == "coder-k8s-jobs"
}

// plain returns an object without the additions of Helm.
func plain(object *unstructured.Unstructured) map[string]any {
	object = object.DeepCopy()
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	for _, key := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
		delete(labels, key)
	}
	delete(annotations, "helm.sh/resource-policy")
	unstructured.RemoveNestedField(object.Object, "metadata", "labels")
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
	if len(labels) > 0 {
		object.SetLabels(labels)
	}
	if len(annotations) > 0 {
		object.SetAnnotations(annotations)
	}
	return object.Object
}

// TestAnotherNamespace checks that no object of a release uses the namespace of the
// manifests.
func TestAnotherNamespace(t *testing.T) {
	o, err := helm(t, "elsewhere", "testdata/everything.values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, object := range o {
		if object.GetKind() == "CustomResourceDefinition" {
			continue // Their descriptions may contain the usual namespace of the operator.
		}
		raw, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), namespace) {
			t.Errorf("%s names %s: %s", name, namespace, raw)
		}
	}
}
