package framework

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func series(t *testing.T, registry *prometheus.Registry) []string {
	t.Helper()
	// Each series is formatted as name{labels}.
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			all = append(all, family.GetName()+"{"+strings.Join(labels, ",")+"}")
		}
	}
	slices.Sort(all)
	return all
}

func TestSeriesGoWithTheirObject(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.NewTime(time.Unix(1000, 0))
	m.Reconciled("CoderControlPlane", "Ready")
	m.BecameReady("CoderControlPlane", time.Minute)
	m.SetReady("CoderControlPlane", "team", "coder", true)
	m.SetReady("CoderProvisioner", "team", "coder", false)
	m.SetExpiries("team", "coder", &now, &now)
	want := []string{
		"coder_k8s_license_expiry_timestamp_seconds{name=coder,namespace=team}",
		"coder_k8s_operator_token_expiry_timestamp_seconds{name=coder,namespace=team}",
		"coder_k8s_ready{kind=CoderControlPlane,name=coder,namespace=team}",
		"coder_k8s_ready{kind=CoderProvisioner,name=coder,namespace=team}",
		"coder_k8s_reconcile_outcomes_total{kind=CoderControlPlane,reason=Ready}",
		"coder_k8s_time_to_ready_seconds{kind=CoderControlPlane}",
	}
	if diff := cmp.Diff(want, series(t, registry)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}

	m.SetExpiries("team", "coder", &now, nil)
	for _, series := range series(t, registry) {
		if strings.HasPrefix(series, "coder_k8s_license_expiry") {
			t.Errorf("%s is told of a license that never expires", series)
		}
	}
	m.Forget("CoderProvisioner", "team", "coder")
	m.Forget("CoderControlPlane", "team", "coder")
	for _, series := range series(t, registry) {
		if strings.Contains(series, "team") {
			t.Errorf("%s is told of an object that is gone", series)
		}
	}
}

func TestMetricsOfOneRegistryAreOne(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		m, err := NewMetrics(registry)
		if err != nil {
			t.Fatal(err)
		}
		m.Reconciled("CoderControlPlane", "Ready")
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if got := families[0].GetMetric()[0].GetCounter().GetValue(); got != 2 {
		t.Errorf("counted %v, want 2", got)
	}
}
