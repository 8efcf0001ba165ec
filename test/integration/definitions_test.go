package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// moduleDir returns the directory with the sources of a module that this one
// uses.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Fatalf("the sources of %s are not there: %v; run go mod download", module, err)
	}
	return dir
}

// serviceMonitors defines the kind with any content: the real definition is in a
// module that nothing else here needs.
func serviceMonitors() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "servicemonitors.monitoring.coreos.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "monitoring.coreos.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "servicemonitors", Singular: "servicemonitor", Kind: "ServiceMonitor", ListKind: "ServiceMonitorList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// installLater installs the custom resource definitions of the Gateway API and of
// the Prometheus Operator, until the test ends.
func installLater(t *testing.T) {
	t.Helper()
	routes := filepath.Join(moduleDir(t, "sigs.k8s.io/gateway-api"), "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml")
	options := envtest.CRDInstallOptions{
		Paths: []string{routes}, ErrorIfPathMissing: true, CRDs: []*apiextensionsv1.CustomResourceDefinition{serviceMonitors()},
		MaxTime: time.Minute,
	}
	if _, err := envtest.InstallCRDs(environment.config, options); err != nil {
		t.Fatalf("installing the custom resource definitions: %v", err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(environment.config, options); err != nil {
			t.Errorf("removing the custom resource definitions: %v", err)
		}
	})
}
