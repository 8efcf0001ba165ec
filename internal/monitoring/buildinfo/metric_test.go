package buildinfo

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheVersionIsRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		if err := Register(registry); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	for _, label := range families[0].GetMetric()[0].GetLabel() {
		if label.GetValue() == "" {
			t.Errorf("the label %s is empty", label.GetName())
		}
	}
}
