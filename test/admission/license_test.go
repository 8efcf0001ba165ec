package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/coder-k8s/coder-k8s/internal/polltest"
)

// heard are the warnings that a client received.
type heard []string

// HandleWarningHeader implements rest.WarningHandler.
func (h *heard) HandleWarningHeader(_ int, _ string, text string) { *h = append(*h, text) }

// TestUnlicensedFeaturesWarn checks that users get a warning only if they apply a
// feature that the license of the running Coder does not include.
func TestUnlicensedFeaturesWarn(t *testing.T) {
	policies(t, "")
	ns := namespace(t)
	var warnings heard
	config := rest.CopyConfig(environment.config)
	config.WarningHandler = &warnings
	warned, err := client.New(config, client.Options{Scheme: environment.client.Scheme(), Mapper: environment.client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	plane := object(t, controlPlane, ns, "coder", "{}")
	if err := environment.client.Create(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
	licensed := func(tier, entitlement string) {
		t.Helper()
		status := map[string]any{"licenseTier": tier, "highAvailabilityEntitlement": entitlement, "workspaceProxyEntitlement": entitlement, "externalProvisionerDaemonsEntitlement": entitlement}
		if err := unstructured.SetNestedMap(plane.Object, status, "status"); err != nil {
			t.Fatal(err)
		}
		if err := environment.client.Status().Update(t.Context(), plane); err != nil {
			t.Fatal(err)
		}
	}
	try := func(kind string) error {
		if kind == controlPlane {
			more := plane.DeepCopy()
			if err := unstructured.SetNestedField(more.Object, int64(2), "spec", "replicas"); err != nil {
				return err
			}
			return warned.Update(t.Context(), more, client.DryRunAll)
		}
		return warned.Create(t.Context(), object(t, kind, ns, "unlicensed", required[kind]), client.DryRunAll)
	}
	for _, c := range []struct{ tier, entitlement string }{{"none", "not_entitled"}, {"premium", "entitled"}} {
		licensed(c.tier, c.entitlement)
		for kind, want := range map[string]string{
			controlPlane: "no license for more than one replica", provisioner: "no license for external provisioners", proxy: "no license for workspace proxies",
		} {
			polltest.Eventually(t, fmt.Sprintf("%s with the license %s", kind, c.tier), func() error {
				warnings = nil
				if err := try(kind); err != nil {
					return err
				}
				got := slices.ContainsFunc(warnings, func(text string) bool { return strings.Contains(text, want) })
				if got != (c.tier == "none") {
					return fmt.Errorf("the warnings are %q", warnings)
				}
				return nil
			})
		}
	}
}
