package resources

import (
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServiceMonitor returns the ServiceMonitor that makes Prometheus scrape the metrics Service, or
// nil if the spec does not ask for one. The cluster may not serve this kind.
func ServiceMonitor(w Workload) *monitoringv1.ServiceMonitor {
	spec := w.Spec.Metrics.ServiceMonitor
	if spec == nil || !w.Spec.Metrics.Enabled {
		return nil
	}
	return &monitoringv1.ServiceMonitor{
		TypeMeta:   metav1.TypeMeta{APIVersion: monitoringv1.SchemeGroupVersion.String(), Kind: monitoringv1.ServiceMonitorsKind},
		ObjectMeta: meta(w, w.Name, spec.Labels, nil),
		Spec: monitoringv1.ServiceMonitorSpec{
			Selector:  metav1.LabelSelector{MatchLabels: metricsLabels(w)},
			Endpoints: []monitoringv1.Endpoint{{Port: portMetrics, Interval: monitoringv1.Duration(spec.Interval)}},
		},
	}
}
