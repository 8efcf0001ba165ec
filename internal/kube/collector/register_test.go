package collector

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheSameMetricIsRegisteredOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	gauge := func(help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "x", Help: help})
	}
	first, second := gauge("the same"), gauge("the same")
	if err := Register(registry, &first); err != nil {
		t.Fatal(err)
	}
	if err := Register(registry, &second); err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Error("two parts of the process count for themselves")
	}
	if other := gauge("another"); Register(registry, &other) == nil {
		t.Error("another metric took the name of the first")
	}
}
