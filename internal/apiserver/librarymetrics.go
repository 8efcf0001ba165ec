package apiserver

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/component-base/metrics/legacyregistry"

	aggregationv1alpha1 "github.com/coder-k8s/coder-k8s/api/aggregation/v1alpha1"
)

// LibraryMetrics returns the names of the exported metrics of k8s.io/apiserver. The library has them in
// a registry of its own, together with a hundred others.
func LibraryMetrics() []string {
	return []string{
		// Requests.
		"apiserver_request_total",
		"apiserver_request_duration_seconds",
		"apiserver_request_terminations_total",
		"apiserver_request_aborts_total",
		"apiserver_longrunning_requests",
		"apiserver_current_inflight_requests",
		"apiserver_tls_handshake_errors_total",
		// Authentication, authorization, admission and audit.
		"apiserver_delegated_authn_request_total",
		"apiserver_delegated_authn_request_duration_seconds",
		"apiserver_delegated_authz_request_total",
		"apiserver_delegated_authz_request_duration_seconds",
		"apiserver_admission_webhook_admission_duration_seconds",
		"apiserver_admission_webhook_rejection_count",
		"apiserver_audit_event_total",
		"apiserver_audit_error_total",
		// The queues of API priority and fairness.
		"apiserver_flowcontrol_current_executing_requests",
		"apiserver_flowcontrol_current_inqueue_requests",
		"apiserver_flowcontrol_dispatched_requests_total",
		"apiserver_flowcontrol_rejected_requests_total",
		"apiserver_flowcontrol_request_wait_duration_seconds",
		// Watches and the cacher.
		"apiserver_watch_events_total",
		"apiserver_terminated_watchers_total",
		"apiserver_watch_cache_events_received_total",
		"apiserver_watch_cache_events_dispatched_total",
		"apiserver_watch_cache_initializations_total",
		"apiserver_watch_cache_read_wait_seconds",
		"apiserver_watch_cache_consistent_read_total",
		"apiserver_storage_consistency_checks_total",
	}
}

// servedResources returns the served resources.
func servedResources() []string {
	return []string{"coderworkspaces", "codertemplates", "codertemplateversions", "coderusers", "coderselfreviews"}
}

// servedSubresources returns the subresources of all resources.
func servedSubresources() []string {
	return []string{"exec", "portforward", "token", "scale", "log", "start", "stop", "restart", "orphan", "files", "parameters", "promote"}
}

// LibraryGatherer returns a gatherer of the exported metrics of k8s.io/apiserver.
func LibraryGatherer() prometheus.Gatherer { return allowListed{legacyregistry.DefaultGatherer} }

// DescribeLibraryMetrics sends the descriptions of all metrics that the library can have, exported or not,
// including those without a series yet.
func DescribeLibraryMetrics(descriptions chan<- *prometheus.Desc) {
	routes.DefaultMetrics{}.Install(mux.NewPathRecorderMux("descriptions"))
	authenticatorfactory.RegisterMetrics()
	authorizerfactory.RegisterMetrics()
	if library, ok := legacyregistry.Registerer().(prometheus.Collector); ok {
		library.Describe(descriptions)
	}
}

// allowListed exports the allow-listed metrics of another gatherer.
type allowListed struct{ prometheus.Gatherer }

// Gather implements prometheus.Gatherer.
func (c allowListed) Gather() ([]*dto.MetricFamily, error) {
	all, err := c.Gatherer.Gather()
	reported := LibraryMetrics()
	out := make([]*dto.MetricFamily, 0, len(reported))
	for _, family := range all {
		if !slices.Contains(reported, family.GetName()) {
			continue
		}
		family.Metric = slices.DeleteFunc(family.Metric, isUnserved)
		if len(family.Metric) > 0 {
			out = append(out, family)
		}
	}
	return out, err
}

// isUnserved reports whether a series has a group, resource or subresource that is not served. The
// library counts some requests by their path before it knows whether the resource exists.
func isUnserved(metric *dto.Metric) bool {
	for _, label := range metric.GetLabel() {
		var served []string
		switch label.GetName() {
		case "group":
			served = []string{aggregationv1alpha1.GroupVersion.Group}
		case "resource":
			served = servedResources()
		case "subresource":
			served = servedSubresources()
		default:
			continue
		}
		if value := label.GetValue(); value != "" && !slices.Contains(served, value) {
			return true
		}
	}
	return false
}
