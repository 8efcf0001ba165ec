package workload

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	coderv1alpha1 "github.com/coder-k8s/coder-k8s/api/v1alpha1"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/metrics"
	"github.com/coder-k8s/coder-k8s/internal/controllers/workload/resources"
)

// registered contains metrics and the registry with which they are registered.
type registered struct {
	*metrics.Metrics
	t        *testing.T
	registry *prometheus.Registry
}

func newMetrics(t *testing.T) *registered {
	t.Helper()
	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	return &registered{Metrics: m, t: t, registry: registry}
}

func (r *registered) timeToReady() (count uint64, sum float64) {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "coder_k8s_time_to_ready_seconds" {
			for _, metric := range family.GetMetric() {
				count += metric.GetHistogram().GetSampleCount()
				sum += metric.GetHistogram().GetSampleSum()
			}
		}
	}
	return count, sum
}

// series returns the values of a gauge.
func (r *registered) series(name string) []float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	var all []float64
	for _, family := range families {
		if family.GetName() == name {
			for _, metric := range family.GetMetric() {
				all = append(all, metric.GetGauge().GetValue())
			}
		}
	}
	return all
}

func planeWorkload(cp *coderv1alpha1.CoderControlPlane) resources.Workload {
	return resources.ControlPlane(cp, resources.ControlPlaneInputs{})
}
