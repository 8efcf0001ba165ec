package controlplane

import (
	"testing"

	"github.com/coder-k8s/coder-k8s/internal/controllers/controllertest"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload"
)

// This test only registers the controller. The tests against a real API server cover the watches.
func TestSetupWithManager(t *testing.T) {
	mgr := controllertest.OfflineManager(t, workload.CacheByObject())
	kit, err := workload.New(mgr, workload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(mgr, kit, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SetupWithManager(t.Context(), mgr); err != nil {
		t.Fatal(err)
	}
	if r.access == nil || r.connect == nil {
		t.Errorf("defaults are missing: %+v", r)
	}
}
