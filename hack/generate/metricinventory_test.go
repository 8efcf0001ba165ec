package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func find(t *testing.T, all []metricFamily, name string) metricFamily {
	t.Helper()
	i := slices.IndexFunc(all, func(m metricFamily) bool { return m.Name == name })
	if i < 0 {
		t.Fatalf("%s is not there, of %d", name, len(all))
	}
	return all[i]
}

func TestOwnMetrics(t *testing.T) {
	own, err := ownMetrics()
	if err != nil {
		t.Fatal(err)
	}
	// One metric of each component, and of each type.
	for name, want := range map[string]metricFamily{
		"coder_k8s_build_info":                           {Type: "gauge", Labels: []string{"version", "commit", "go_version"}},
		"coder_k8s_ready":                                {Type: "gauge", Labels: []string{"kind", "namespace", "name"}},
		"coder_k8s_mirror_syncs_total":                   {Type: "counter", Labels: []string{"namespace", "name", "result"}},
		"coder_k8s_mirror_leader":                        {Type: "gauge"},
		"coder_k8s_mcp_rate_limited_total":               {Type: "counter"},
		"coder_k8s_time_to_ready_seconds":                {Type: "histogram", Labels: []string{"kind"}},
		"coder_k8s_certificate_expiry_timestamp_seconds": {Type: "gauge", Labels: []string{"secret"}},
	} {
		got := find(t, own, name)
		want.Name, want.Help = name, got.Help
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, metric := range own {
		switch counter := strings.HasSuffix(metric.Name, "_total"); {
		case !strings.HasPrefix(metric.Name, "coder_k8s_"):
			t.Errorf("%s does not say whose it is", metric.Name)
		case counter != (metric.Type == "counter"):
			t.Errorf("%s is a %s", metric.Name, metric.Type)
		case metric.Help == "" || !strings.HasSuffix(metric.Help, "."):
			t.Errorf("the help of %s is no sentence: %q", metric.Name, metric.Help)
		}
	}
}

func TestMetricsOfLibraries(t *testing.T) {
	libraries, err := libraryMetrics()
	if err != nil {
		t.Fatal(err)
	}
	for name, labels := range map[string][]string{
		"controller_runtime_reconcile_errors_total": {"controller"},
		"rest_client_requests_total":                {"code", "method", "host"},
		"workqueue_depth":                           {"name", "controller", "priority"},
		"apiserver_current_inflight_requests":       {"request_kind"},
		"apiserver_delegated_authn_request_total":   {"code"},
		"process_resident_memory_bytes":             nil,
	} {
		if diff := cmp.Diff(labels, find(t, libraries, name).Labels); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, metric := range libraries {
		if strings.HasPrefix(metric.Name, "coder_k8s_") || strings.HasPrefix(metric.Name, "etcd_") {
			t.Errorf("%s is told", metric.Name)
		}
	}
}

func TestADescription(t *testing.T) {
	got, err := parseDescription(prometheus.NewDesc("x_total", `A "quoted" help, {with} all \ signs.`, []string{"a", "b"}, prometheus.Labels{"c": "d"}))
	want := metricFamily{Name: "x_total", Help: `A "quoted" help, {with} all \ signs.`, Labels: []string{"a", "b"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
