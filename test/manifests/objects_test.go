package manifests

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/coder-k8s/coder-k8s/internal/kube/kubetest"
)

// TestEveryObjectIsLabelled checks the label by which our objects are found and
// removed.
func TestEveryObjectIsLabelled(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, objects rendering) {
		seen := map[string]bool{}
		for _, object := range objects {
			if object.GetLabels()[labelName] != program {
				t.Errorf("%s has no label %s=%s", describe(object), labelName, program)
			}
			if seen[describe(object)] {
				t.Errorf("%s is there twice", describe(object))
			}
			seen[describe(object)] = true
		}
	})
}

// TestUnknownInstallation checks that the error names the installations that there are.
func TestUnknownInstallation(t *testing.T) {
	_, err := kubetest.Installation(t.Context(), "default", "nonsense")
	if err == nil || !strings.Contains(err.Error(), `"nonsense" is neither a file nor one of: cert-manager default ha`) {
		t.Errorf("the error is %v", err)
	}
}

// TestNothingIsForHelm checks that the manifests contain nothing that only Helm uses: applying the pod
// that tests would run it.
func TestNothingIsForHelm(t *testing.T) {
	eachInstallation(t, func(t *testing.T, _ string, objects rendering) {
		if namespaces := ofKind[corev1.Namespace](t, objects, "Namespace"); len(namespaces) != 1 || namespaces[0].Name != operatorNamespace {
			t.Errorf("the namespaces are %v", namespaces)
		}
		for _, object := range objects {
			if slices.Contains([]string{"Job", "Pod"}, object.GetKind()) {
				t.Errorf("%s would run when it is applied", describe(object))
			}
			for _, words := range []map[string]string{object.GetLabels(), object.GetAnnotations()} {
				for key, value := range words {
					if strings.Contains(key, "helm.sh/") || value == "Helm" {
						t.Errorf("%s has %s=%s", describe(object), key, value)
					}
				}
			}
		}
	})
}
